// TLS 1.3 for connections within a job: checked options that connections share (TlsContext), and the protocol of one
// connection (TlsSession). OpenSSL implements it; no header of OpenSSL is included here.
//
// A job uses one of two ways to authenticate its processes:
//   psk            both sides hold the same 32 bytes. Every connection gets new keys by a Diffie-Hellman exchange. So
//                  an attacker who learns the 32 bytes later cannot decrypt recorded traffic.
//   certificates   both sides present a certificate. Each side requires that the other side's certificate is signed
//                  by the CA in ca_file and is valid now. Every process with such a certificate belongs to the job;
//                  the names in the certificate are not checked.
//
// If a peer cannot prove that it belongs to the job, the error is kAuth. It says what was wrong and names the address.
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

// Types of OpenSSL; only the .cc files use their contents.
struct bio_method_st;
struct bio_st;
struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace rondo {

enum class TlsMode : std::uint8_t { kOff, kPsk, kCertificates };
std::string_view Name(TlsMode mode);  // "off", "psk", "certificates"
// kInvalidArgument: `text` is none of the three names. `what` names the source of the text ("variable RONDO_TLS").
Result<TlsMode> ParseTlsMode(std::string_view what, std::string_view text);

inline constexpr std::size_t kTlsPskBytes = 32;
// Draws a new key. kResource: no random bytes are available.
Result<std::string> NewTlsPsk();

struct TlsOptions {
  TlsMode mode = TlsMode::kOff;
  std::string psk = {};                // kPsk: kTlsPskBytes random bytes, the same on all ranks; never printed
  std::string psk_identity = "rondo";  // kPsk: the name of the key, sent unencrypted; 1 to 128 bytes
  std::string ca_file = {};            // kCertificates: PEM file of the trusted authorities
  // kCertificates: PEM file with this process's certificate, then the intermediate certificates
  std::string certificate_file = {};
  std::string key_file = {};  // kCertificates: PEM file with the certificate's private key, without a password
};

// The settings that all connections of a process share. Immutable; any thread.
class TlsContext {
 public:
  // Null if the mode is kOff. kInvalidArgument: the key has a wrong length, or a file is missing, unreadable or of the
  // wrong kind; the error names the file and the reason. kUnsupported: this machine's OpenSSL refuses TLS 1.3.
  // kOutOfMemory.
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

// The largest number of bytes in one record, and the largest number that TLS adds to it: header, type, tag, and a
// change of keys before the record.
inline constexpr std::size_t kTlsRecordBytes = 16384;
inline constexpr std::size_t kTlsOverheadBytes = 128;
// The smallest buffer for one direction, which holds one record. It is large enough for connections that need not be
// fast.
inline constexpr std::size_t kTlsSmallBuffer = kTlsRecordBytes + 2 * kTlsOverheadBytes;

// A side without TLS sends this to a peer that begins with TLS: an unencrypted fatal alert, unexpected_message. The
// alert tells the peer why the connection fails. BeginsTls recognizes such a peer by its first bytes, which are those
// of a handshake record.
inline constexpr std::array<std::byte, 7> kTlsNotSpoken{std::byte{0x15}, std::byte{0x03}, std::byte{0x03}, std::byte{0},
                                                        std::byte{2},    std::byte{2},    std::byte{10}};
inline bool BeginsTls(Bytes first) {
  return first.size() >= 2 && first[0] == std::byte{0x16} && first[1] == std::byte{0x03};
}

// The TLS protocol of one connection, without a socket. The owner of the connection calls Handshake until Handshake
// returns true, and then uses Write and Read. During all this time the owner must also move
//
//   received bytes   into Room(), then call Received(n), or ReceivedEnd() when the stream has ended;
//   Unsent()         to the peer, then call Sent(n).
//
// The buffers of both directions are allocated once and never grow. Write and Read allocate nothing. Keys are changed
// after every kRecordsPerKey records.
//
// After an error every call returns the same error. Unsent() may then hold an alert that tells the peer the reason:
// send this alert before closing the connection.
//
// Thread rule: one thread at a time.
class TlsSession {
 public:
  enum class Role : std::uint8_t { kClient, kServer };

  // `peer`: the other side's address, for errors. `buffer_bytes`: the size of each direction's buffer, at least
  // kTlsSmallBuffer. kOutOfMemory.
  static Result<std::unique_ptr<TlsSession>> Make(std::shared_ptr<const TlsContext> context, Role role,
                                                  std::string peer, std::size_t buffer_bytes = kTlsSmallBuffer);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // ---- the connection's bytes ----

  // The space for received bytes. It is empty while earlier received bytes have not been read.
  MutableBytes Room();
  void Received(std::size_t bytes);
  void ReceivedEnd();
  // Whether there are received bytes that neither Handshake nor Read has consumed.
  bool HasReceived() const;
  // The first contiguous bytes to send. Call it again after Sent.
  Bytes Unsent() const;
  void Sent(std::size_t bytes);

  // ---- the protocol ----

  // Advances the handshake as far as possible without blocking. True: the keys of both sides are in use. (A client gets
  // true before the server has checked the client's certificate. If the server refuses the certificate, a later Read
  // returns the error.) kAuth: one side could not authenticate the other; the error says why. kConnectionReset: the
  // peer closed the connection during the handshake.
  Result<bool> Handshake();
  bool established() const { return established_; }

  // Takes as many bytes from the front of `pieces` as the buffer has room for, and returns their number. REQUIRES:
  // established().
  Result<std::size_t> Write(std::span<const Bytes> pieces);
  // Copies decrypted bytes to `destination` and returns their number; 0: none are available now, or ended(). kCorrupt:
  // bytes were changed in transit. kConnectionReset: the stream ended without the peer's notice of its end. REQUIRES:
  // established().
  Result<std::size_t> Read(MutableBytes destination);

  // Ends the stream. If the buffer has room, adds TLS's close notice, so that the peer knows that no bytes follow.
  void Finish();
  // Whether the peer sent its close notice and all bytes before the notice have been read.
  bool ended() const { return ended_; }

  // "TLS 1.3, TLS_AES_128_GCM_SHA256, psk".
  std::string Describe() const;

  // RFC 8446 allows 2^24.5 records per key with AES-GCM.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;
  // For tests, because they cannot write kRecordsPerKey records.
  void ChangeKeysAfter(std::uint64_t records) { records_per_key_ = records; }

 private:
  friend struct TlsCallbacks;
  TlsSession(std::shared_ptr<const TlsContext> context, std::string peer);

  // Makes an error from OpenSSL's error queue, stores it as the session's failure, and returns it.
  Error Fail();
  Error Broken(ErrorCode code, std::string_view text);
  std::string WordsFor(int reason) const;
  Status PutRecord(Bytes bytes);

  const std::shared_ptr<const TlsContext> context_;
  const std::string peer_;
  ssl_st* ssl_ = nullptr;
  bio_st* wire_ = nullptr;                 // the network's end of the BIO pair; ssl_ owns the other end
  std::unique_ptr<std::byte[]> gathered_;  // a record that is collected from several pieces
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
