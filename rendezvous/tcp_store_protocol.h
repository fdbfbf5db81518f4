// The bytes between a TCP store's client and its server: bytes in, messages out, and the other way; no sockets. The
// layout with an example is docs/WIRE.md, "Store protocol".
//
//   client -> server   hello, then requests
//   server -> client   hello reply, then replies, in any order; each names its request
//
// What goes to and fro before the hello reply where there is a token: tcp_store_handshake.h.
//
// A request or reply is a frame: its length (32 bits), then an id (64 bits), a kind (8 bits) and the kind's fields.
// Integers are little-endian. Everything that has a length has a limit, checked before anything is allocated for it.
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
inline constexpr std::size_t kMaxOtherNonceBytes = 1024;  // in the hello of another version, which is told so
inline constexpr std::size_t kHelloReplyHeadBytes = 14;
inline constexpr std::size_t kMaxHelloTextBytes = 1024;

inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kFrameHeadBytes = 9;  // id and kind, the least that a length may be
// A full batch: keys, values, and a length for each of both.
inline constexpr std::size_t kMaxFrameBytes = kMaxBatchBytes + kMaxBatch * 8 + kMaxKeyBytes + kMaxValueBytes + 64;

// ---- hello ----

struct Hello {
  std::uint16_t version = kVersion;
  std::string job;    // processes of different jobs must not meet
  std::string nonce;  // kNonceBytes where the client has a job token, else none
};
std::string Encode(const Hello& hello);

// One of a welcome, a refusal and a challenge.
struct HelloReply {
  std::uint16_t version = kVersion;
  std::optional<Error> refused;
  std::optional<Nonce> challenge;   // prove that you know the job's token: a proof is wanted, another reply follows
  std::optional<TokenProof> proof;  // that the server knows it, where the client has proved itself
};
std::string Encode(const HelloReply& reply);

// Takes a hello off the front of `bytes`: nullopt while it is incomplete, kProtocol as soon as it can be none.
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
// Ends the Wait that has this request's id. That Wait is answered as timed out (naming the missing keys) if it has not
// been answered yet; the request itself gets no answer.
struct AbandonRequest {};

// In the order of their numbers on the wire, from 1.
using RequestBody =
    std::variant<SetRequest, GetRequest, WaitRequest, AddRequest, CompareSetRequest, DeleteRequest, AbandonRequest>;
struct Request {
  std::uint64_t id = 0;  // chosen by the client; not in use by another of its pending requests
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

// The content of one frame. kProtocol: no request of this version.
Result<Request> DecodeRequest(std::string_view frame);

// ---- replies ----

// Bytes that wait to be sent, as pieces, so that one value on its way to a thousand clients is held once.
class Outgoing {
 public:
  void Append(std::string bytes);
  // Small ones are copied, large ones shared.
  void AppendValue(std::shared_ptr<const std::string> value);

  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  // The first pieces, at most `out.size()` of them; returns how many. Valid until the next call that changes anything.
  std::size_t Front(std::span<Bytes> out) const;
  void Consume(std::size_t bytes);

 private:
  // Gathers neighbours: the last piece grows while it is ours alone and small.
  void AppendSmall(std::string_view bytes);

  std::deque<std::shared_ptr<const std::string>> pieces_;
  std::shared_ptr<std::string> growing_;  // the last piece, if it may grow
  std::size_t consumed_ = 0;              // of the first piece
  std::size_t bytes_ = 0;
};

using SharedValue = std::shared_ptr<const std::string>;

// Answers to Set (nothing more), Get and Wait (values; null: absent), Add (sum), CompareSet, Delete (count).
void AppendDone(std::uint64_t id, Outgoing& out);
void AppendValues(std::uint64_t id, std::span<const SharedValue> values, Outgoing& out);
void AppendNumber(std::uint64_t id, std::int64_t number, Outgoing& out);
void AppendCompareSet(std::uint64_t id, const CompareSetResult& result, Outgoing& out);
void AppendError(std::uint64_t id, const Error& error, Outgoing& out);

// The answer as it came: its kind is the code of an error (0: none), whose text `payload` is.
struct Reply {
  std::uint64_t id = 0;
  std::optional<ErrorCode> error;
  std::string payload;
};
Result<Reply> DecodeReply(std::string_view frame);
// What a payload means, by the request it answers. kProtocol: something else.
Result<std::vector<std::optional<std::string>>> DecodeValues(std::string_view payload);
Result<std::int64_t> DecodeNumber(std::string_view payload);
Result<CompareSetResult> DecodeCompareSet(std::string_view payload);

// ---- frames ----

// The content of the first frame in `bytes`, without its length: nullopt while it is incomplete, kProtocol if its
// length is outside kFrameHeadBytes..kMaxFrameBytes. The frame takes kLengthBytes more than its content.
Result<std::optional<std::string_view>> FirstFrame(std::string_view bytes);

}  // namespace rondo::store_protocol
