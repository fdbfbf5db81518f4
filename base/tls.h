// TLS 1.3 for connections within a job: who may make a context (options to a checked, shared TlsContext), and one
// connection's protocol (TlsSession). OpenSSL does the work; nothing of it shows here.
//
// Two ways to know each other, the same for all processes of a job:
//   psk            both sides hold the same 32 bytes. Keys are fresh for every connection (a Diffie-Hellman exchange),
//                  so who learns the 32 bytes later cannot read what was recorded before.
//   certificates   both sides show a certificate, and each wants the other's to be signed by the CA in ca_file and to
//                  be valid today. Whoever has such a certificate belongs to the job: names in it are not looked at.
//
// Errors in which somebody could not prove to belong are kAuth, and say what was wrong in words, with the address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

// OpenSSL's, which only the .cc files look into.
struct bio_method_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace rondo {

enum class TlsMode : std::uint8_t { kOff, kPsk, kCertificates };
std::string_view Name(TlsMode mode);  // "off", "psk", "certificates"
// kInvalidArgument: none of the three names; `what` says where the text came from ("variable RONDO_TLS").
Result<TlsMode> ParseTlsMode(std::string_view what, std::string_view text);

inline constexpr std::size_t kTlsPskBytes = 32;
// A new key. kResource: the machine has no random bytes.
Result<std::string> NewTlsPsk();

struct TlsOptions {
  TlsMode mode = TlsMode::kOff;
  std::string psk = {};                // kPsk: kTlsPskBytes random bytes, the same on all; never printed
  std::string psk_identity = "rondo";  // kPsk: says in the clear which key is meant; at most 128 bytes
  std::string ca_file = {};            // kCertificates: PEM, the authorities believed
  std::string certificate_file = {};   // kCertificates: PEM, this process's, then those between it and the CA
  std::string key_file = {};           // kCertificates: PEM, without a password
};

// What all connections of a process share. Immutable; any thread.
class TlsContext {
 public:
  // Null where the mode is kOff. kInvalidArgument: a key of another length, or a file that is missing, unreadable or no
  // such thing; names the file and says why.
  static Result<std::shared_ptr<const TlsContext>> Make(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  TlsMode mode() const { return options_.mode; }

 private:
  friend class TlsSession;
  friend struct TlsCallbacks;
  explicit TlsContext(TlsOptions options) : options_(std::move(options)) {}
  Status SetUp();

  TlsOptions options_;
  ssl_ctx_st* context_ = nullptr;
};

// What one record adds to its bytes at most: header, type, tag; and a change of keys before it.
inline constexpr std::size_t kTlsRecordBytes = 16384;
inline constexpr std::size_t kTlsOverheadBytes = 128;
// Holds one record each way. The least, and enough where no stream of bytes is to be fast.
inline constexpr std::size_t kTlsSmallBuffer = kTlsRecordBytes + 2 * kTlsOverheadBytes;

// What a side without TLS answers to one that begins with TLS, so that this one need not guess: a fatal alert,
// unexpected_message, in the clear. And how to know such a beginning: a handshake record, by its first bytes.
inline constexpr std::array<std::byte, 7> kTlsNotSpoken{std::byte{0x15}, std::byte{0x03}, std::byte{0x03}, std::byte{0},
                                                        std::byte{2},    std::byte{2},    std::byte{10}};
inline bool BeginsTls(Bytes first) {
  return first.size() >= 2 && first[0] == std::byte{0x16} && first[1] == std::byte{0x03};
}

// One connection's TLS: bytes in, bytes out, no socket. Whoever owns the connection moves
//
//   what arrives     into Room(), then Received(n) (or ReceivedEnd when the stream has ended);
//   Unsent()         to the peer, then Sent(n);
//
// and calls Handshake until it is true, then Write and Read. Both buffers are made once and never grow; nothing is
// allocated by Write and Read. Keys are changed after every kRecordsPerKey records.
//
// After an error every call gives that error again. There may be an alert among Unsent() then, which tells the peer
// why: send it before closing.
//
// Thread rule: one thread at a time.
class TlsSession {
 public:
  enum class Role : std::uint8_t { kClient, kServer };

  // `peer`: the other side's address, for errors. `buffer_bytes`: of each direction, at least kTlsSmallBuffer.
  // kOutOfMemory.
  static Result<std::unique_ptr<TlsSession>> Make(std::shared_ptr<const TlsContext> context, Role role,
                                                  std::string peer, std::size_t buffer_bytes = kTlsSmallBuffer);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // ---- the connection's bytes ----

  // Empty while what was received waits to be read.
  MutableBytes Room();
  void Received(std::size_t bytes);
  void ReceivedEnd();
  // Whether there is something received that Handshake or Read has not looked at yet.
  bool HasReceived() const;
  // The front of what is to be sent; call again after Sent.
  Bytes Unsent() const;
  void Sent(std::size_t bytes);

  // ---- the protocol ----

  // Goes on as far as it can; true once both sides' keys are in use. (In the client that comes before the server has
  // judged the client's certificate: a "no" arrives as an error of Read.) kAuth: why the two do not belong together.
  // kConnectionReset: the peer closed in the midst of it.
  Result<bool> Handshake();
  bool established() const { return established_; }

  // Takes as many bytes from the front of `pieces` as there is room for, and says how many. REQUIRES: established().
  Result<std::size_t> Write(std::span<const Bytes> pieces);
  // Gives what has arrived, as far as it fits; 0: nothing now, or ended(). kCorrupt: bytes were changed on the way.
  // kConnectionReset: the stream ended, and the peer had not said that it would. REQUIRES: established().
  Result<std::size_t> Read(MutableBytes destination);

  // Says that nothing more follows, as far as there is room for it. For the end of the stream.
  void Finish();
  // The peer said so, and everything before it has been read.
  bool ended() const { return ended_; }

  // "TLS 1.3, TLS_AES_128_GCM_SHA256, psk".
  std::string Describe() const;

  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;  // RFC 8446 allows 2^24.5 of AES-GCM
  // For tests, which cannot write so many.
  void ChangeKeysAfter(std::uint64_t records) { records_per_key_ = records; }

 private:
  friend struct TlsCallbacks;
  TlsSession(std::shared_ptr<const TlsContext> context, std::string peer);

  // Keeps and gives what OpenSSL's queue of errors says.
  Error Fail();
  Error Broken(ErrorCode code, std::string_view text);
  std::string WordsFor(int reason) const;
  Status PutRecord(Bytes bytes);

  const std::shared_ptr<const TlsContext> context_;
  const std::string peer_;
  ssl_st* ssl_ = nullptr;
  bio_st* wire_ = nullptr;                 // the far end of the pair of buffers whose near end is ssl_'s
  std::unique_ptr<std::byte[]> gathered_;  // a record of several pieces
  bool established_ = false;
  bool input_ended_ = false;
  bool ended_ = false;
  bool finished_ = false;
  std::uint64_t records_ = 0;
  std::uint64_t records_per_key_ = kRecordsPerKey;
  std::string judgement_;  // what was wrong with the peer's certificate
  bool unknown_identity_ = false;
  std::optional<Error> failure_;
};

}  // namespace rondo
