// The wire format between a TCP store's client and its server: encodes messages to bytes and decodes them, without
// sockets. docs/WIRE.md, "Store protocol", has the layout with an example.
//
//   client -> server   hello, then requests
//   server -> client   hello reply, then replies, in any order; each names its request
//
// If client and server have a token, a challenge and a proof precede the hello reply: tcp_store_handshake.h.
//
// A request or reply is a frame: its length (32 bits), then an id (64 bits), a kind (8 bits) and the kind's fields.
// Integers are little-endian. Every length has a limit, which is checked before memory is allocated for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/result.h"
#include "rendezvous/store.h"

namespace rondo::store_protocol {

inline constexpr std::string_view kMagic{"RONDO\0KV", 8};
inline constexpr std::uint16_t kVersion = 2;

inline constexpr std::size_t kHelloHeadBytes = 16;
inline constexpr std::size_t kMaxJobBytes = 256;
// The limit for the nonce in a hello of another version. Such a hello is read so that the refusal can name its version.
inline constexpr std::size_t kMaxOtherNonceBytes = 1024;
inline constexpr std::size_t kHelloReplyHeadBytes = 14;
inline constexpr std::size_t kMaxHelloTextBytes = 1024;

inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kFrameHeadBytes = 9;  // id and kind; the smallest value of a frame's length field
// The size of a full batch: keys, values, and a length field for each key and each value.
inline constexpr std::size_t kMaxFrameBytes = kMaxBatchBytes + kMaxBatch * 8 + kMaxKeyBytes + kMaxValueBytes + 64;

// ---- hello ----

struct Hello {
  std::uint16_t version = kVersion;
  std::string job;    // the client's job; a server of another job refuses the client
  std::string nonce;  // kNonceBytes if the client has a job token, otherwise empty
};
std::string Encode(const Hello& hello);

// The server's reply to a hello: a welcome, a refusal or a challenge.
struct HelloReply {
  std::uint16_t version = kVersion;
  std::optional<Error> refused;
  std::optional<Nonce> challenge;  // asks the client to prove the job's token; another reply follows the proof
  // Proves that the server knows the token. It is present if the client has proved that it knows the token.
  std::optional<TokenProof> proof;
};
std::string Encode(const HelloReply& reply);

// Takes a hello from the front of `bytes`: nullopt while it is incomplete, kProtocol as soon as the bytes cannot be a
// hello.
Result<std::optional<Hello>> TakeHello(std::string& bytes);
Result<std::optional<HelloReply>> TakeHelloReply(std::string& bytes);

// ---- requests ----

struct SetRequest {
  std::vector<KeyValue> entries;
};
struct GetRequest {
  std::vector<std::string> keys;
};
struct WaitRequest {
  std::vector<std::string> keys;
  std::string cancel_key;
};
struct AddRequest {
  std::string key;
  std::int64_t delta = 0;
};
struct CompareSetRequest {
  std::string key;
  std::optional<std::string> expected;
  std::string desired;
};
struct DeleteRequest {
  std::vector<std::string> keys;
};
// Ends the Wait whose request has the same id. If that Wait has no answer yet, it is answered as timed out, with the
// missing keys. The AbandonRequest itself gets no answer.
struct AbandonRequest {};

// The alternatives are in the order of their numbers on the wire, which begin at 1.
using RequestBody =
    std::variant<SetRequest, GetRequest, WaitRequest, AddRequest, CompareSetRequest, DeleteRequest, AbandonRequest>;
struct Request {
  std::uint64_t id = 0;  // chosen by the client, not used by another of its pending requests
  RequestBody body;
};

std::string EncodeSet(std::uint64_t id, std::span<const KeyValue> entries);
std::string EncodeGet(std::uint64_t id, std::span<const std::string> keys);
std::string EncodeWait(std::uint64_t id, std::span<const std::string> keys, std::string_view cancel_key);
std::string EncodeAdd(std::uint64_t id, std::string_view key, std::int64_t delta);
std::string EncodeCompareSet(std::uint64_t id, std::string_view key, std::optional<std::string_view> expected,
                             std::string_view desired);
std::string EncodeDelete(std::uint64_t id, std::span<const std::string> keys);
std::string EncodeAbandon(std::uint64_t id);

// Decodes the content of one frame. kProtocol: it is not a request of this version.
Result<Request> DecodeRequest(std::string_view frame);

// ---- replies ----

// Bytes that wait to be sent, kept as pieces. A value that is sent to a thousand clients is in memory only once.
class Outgoing {
 public:
  void Append(std::string bytes);
  // Copies a small value. Keeps a reference to a large value.
  void AppendValue(std::shared_ptr<const std::string> value);

  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  // Writes the first pieces into `out`, at most `out.size()` of them, and gives their number. The pieces are valid
  // until the next call that changes this object.
  std::size_t Front(std::span<Bytes> out) const;
  void Consume(std::size_t bytes);

 private:
  // Appends to the final piece if that piece is small and not shared; otherwise begins a new piece.
  void AppendSmall(std::string_view bytes);

  std::deque<std::shared_ptr<const std::string>> pieces_;
  std::shared_ptr<std::string> growing_;  // the last piece, if it may grow
  std::size_t consumed_ = 0;              // the number of bytes of the first piece that are already sent
  std::size_t bytes_ = 0;
};

using SharedValue = std::shared_ptr<const std::string>;

// Each of these functions writes the answer to a request. AppendDone answers Set. AppendValues answers Get and Wait
// (null: absent). AppendNumber answers Add with the sum, and Delete with the count.
void AppendDone(std::uint64_t id, Outgoing& out);
void AppendValues(std::uint64_t id, std::span<const SharedValue> values, Outgoing& out);
void AppendNumber(std::uint64_t id, std::int64_t number, Outgoing& out);
void AppendCompareSet(std::uint64_t id, const CompareSetResult& result, Outgoing& out);
void AppendError(std::uint64_t id, const Error& error, Outgoing& out);

// An answer before its payload is decoded. If the request failed, `error` is the code and `payload` the message.
struct Reply {
  std::uint64_t id = 0;
  std::optional<ErrorCode> error;
  std::string payload;
};
Result<Reply> DecodeReply(std::string_view frame);
// These functions decode a payload as the answer to a Get or Wait, to an Add or Delete, and to a CompareSet. kProtocol:
// the payload does not have that form.
Result<std::vector<std::optional<std::string>>> DecodeValues(std::string_view payload);
Result<std::int64_t> DecodeNumber(std::string_view payload);
Result<CompareSetResult> DecodeCompareSet(std::string_view payload);

// ---- frames ----

// Gives the content of the first frame in `bytes`, without its length field. nullopt while the frame is incomplete;
// kProtocol if its length is outside kFrameHeadBytes..kMaxFrameBytes. The whole frame is kLengthBytes longer than the
// content.
Result<std::optional<std::string_view>> FirstFrame(std::string_view bytes);

}  // namespace rondo::store_protocol
