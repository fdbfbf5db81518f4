// rendezvous/tcp_store_protocol: hellos, requests and replies, as either side reads them from any peer.
//
// Both sides read the same input as a stream. Some inputs are also extended with zeros to one mebibyte and read as the
// payload of a reply, because the counts in a payload could cause allocations.
#include <span>
#include <variant>

#include "base/printable.h"
#include "rendezvous/tcp_store_protocol.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::store_protocol_fuzz {
using namespace store_protocol;  // NOLINT(google-build-using-namespace): all of it is under test here

constexpr std::size_t kStretchedBytes = 1 << 20;

std::string Taken(Outgoing& out) {
  std::string all;
  Bytes piece;
  while (out.Front(std::span(&piece, 1)) == 1) {
    all += ToText(piece);
    out.Consume(piece.size());
  }
  return all;
}

std::string EncodeAgain(const Request& request) {
  struct Encoder {
    std::uint64_t id;
    std::string operator()(const SetRequest& of) const { return EncodeSet(id, of.entries); }
    std::string operator()(const GetRequest& of) const { return EncodeGet(id, of.keys); }
    std::string operator()(const WaitRequest& of) const { return EncodeWait(id, of.keys, of.cancel_key); }
    std::string operator()(const AddRequest& of) const { return EncodeAdd(id, of.key, of.delta); }
    std::string operator()(const CompareSetRequest& of) const {
      return EncodeCompareSet(id, of.key, of.expected, of.desired);
    }
    std::string operator()(const DeleteRequest& of) const { return EncodeDelete(id, of.keys); }
    std::string operator()(const AbandonRequest&) const { return EncodeAbandon(id); }
  };
  return std::visit(Encoder{request.id}, request.body);
}

void CheckRequest(std::string_view frame) {
  const Allocations allocations;
  const auto request = DecodeRequest(frame);
  allocations.CheckLargest(4096 + 64 * frame.size());
  CheckError(request);
  if (!request) return;
  const std::string again = EncodeAgain(*request);
  // The two frames may differ in one field only: the expected value of a CompareSetRequest, which is ignored if no
  // value is expected.
  RONDO_HOLDS(again.size() <= kLengthBytes + frame.size());
  if (!std::holds_alternative<CompareSetRequest>(request->body)) {
    RONDO_HOLDS(std::string_view(again).substr(kLengthBytes) == frame);
  }
  const auto same = DecodeRequest(std::string_view(again).substr(kLengthBytes));
  RONDO_HOLDS(same && EncodeAgain(*same) == again);
}

void CheckPayload(std::string_view payload) {
  {
    const Allocations allocations;
    const auto values = DecodeValues(payload);
    allocations.CheckLargest(64 * (kMaxBatch + payload.size()));
    CheckError(values);
    if (values) {
      RONDO_HOLDS(values->size() <= kMaxBatch, "{} values in one answer", values->size());
      std::vector<SharedValue> shared;
      for (const auto& value : *values) shared.push_back(value ? std::make_shared<const std::string>(*value) : nullptr);
      Outgoing out;
      AppendValues(1, shared, out);
      RONDO_HOLDS(Taken(out).size() == kLengthBytes + kFrameHeadBytes + payload.size());
    }
  }
  const auto number = DecodeNumber(payload);
  CheckError(number);
  RONDO_HOLDS(number.has_value() == (payload.size() == 8));
  const auto result = DecodeCompareSet(payload);
  CheckError(result);
}

void CheckFrames(std::string_view stream) {
  while (true) {
    const auto frame = FirstFrame(stream);
    CheckError(frame);
    if (!frame || !*frame) return;
    RONDO_HOLDS((*frame)->size() + kLengthBytes <= stream.size() && (*frame)->size() >= kFrameHeadBytes);
    CheckRequest(**frame);
    const auto reply = DecodeReply(**frame);
    CheckError(reply);
    if (reply) {
      CheckPayload(reply->payload);
      if (reply->error) CheckError(Error(*reply->error, reply->payload.empty() ? "?" : reply->payload));
    }
    stream.remove_prefix(kLengthBytes + (*frame)->size());
  }
}

// A hello is decoded from a stream, no matter how the stream is cut. The bytes that follow the hello remain.
template <typename Message>
void CheckHello(std::string_view input, Result<std::optional<Message>> (*take)(std::string&)) {
  std::string whole(input);
  const Allocations allocations;
  const auto taken = take(whole);
  CheckError(taken);
  std::string came;
  for (const std::string_view piece : Pieces(input, Cut::kBytes)) {
    came += piece;
    const auto now = take(came);
    if (now && !*now) continue;
    RONDO_HOLDS(now.has_value() == taken.has_value());
    if (!now) break;
    RONDO_HOLDS(taken->has_value() && came.empty(), "a hello is taken when its last byte is there");
    RONDO_HOLDS(Encode(**now) == Encode(**taken));
    std::string again = Encode(**taken);
    const auto same = take(again);
    RONDO_HOLDS(same && *same && again.empty());
    break;
  }
  allocations.CheckLargest(8192 + 64 * input.size());
}

Corpus HarnessCorpus() {
  const std::vector<KeyValue> entries{{"a", "1"}, {"b", ""}};
  const std::vector<std::string> keys{"a", "b", "none"};
  const SharedValue value = std::make_shared<const std::string>("v");
  Outgoing replies;
  AppendDone(1, replies);
  AppendValues(2, std::vector<SharedValue>{value, nullptr}, replies);
  AppendNumber(3, -1, replies);
  AppendCompareSet(4, {.swapped = true, .current = "x"}, replies);
  AppendError(5, Error(ErrorCode::kStoreTimeout, "1 of 1 keys did not appear in time: 'a'"), replies);
  const std::string requests = EncodeSet(1, entries) + EncodeGet(2, keys) + EncodeWait(3, keys, "cancel") +
                               EncodeAdd(4, "n", -1) + EncodeCompareSet(5, "a", std::nullopt, "2") +
                               EncodeCompareSet(6, "a", "2", "") + EncodeDelete(7, keys) + EncodeAbandon(3);
  return {.seeds = {Encode(Hello{.job = "j1", .nonce = std::string(16, 'n')}), Encode(HelloReply{}),
                    Encode(HelloReply{.challenge = Nonce{}}), Encode(HelloReply{.proof = TokenProof{}}),
                    Encode(HelloReply{.refused = Error(ErrorCode::kVersionMismatch, "another job")}), requests,
                    Taken(replies), std::string("\x02\x00\x00\x00\x00\x01\x01\x00\x00\x00v", 11)},
          .words = {std::string(kMagic), std::string("\x00\x00\x10\x00", 4), std::string("\xff\xff\xff\xff", 4)}};
}

void CheckInput(std::string_view input) {
  CheckHello<Hello>(input, TakeHello);
  CheckHello<HelloReply>(input, TakeHelloReply);
  CheckFrames(input);
  CheckRequest(input);
  CheckPayload(input);
  // Only a few inputs are extended, because a mebibyte takes time.
  if (input.size() <= 8 && HashOf(input) % 4 == 0) {
    std::string stretched(input);
    stretched.resize(kStretchedBytes, '\0');
    CheckPayload(stretched);
  }
}

}  // namespace rondo::fuzz::store_protocol_fuzz
