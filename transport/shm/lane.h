// A lane between two processes of one host: two rings in a segment, beside a lane of the base transport.
//
// How it comes to be. The base lane is made first, as between any two ranks. Over it the two agree, with one message of
// kLineBytes each way, whether they share memory:
//   1. The higher rank, the caller, makes a segment, calls the other endpoint's abstract socket and leaves there the
//      segment's and its own signal's descriptor, and its nonce. Then it says over the base lane: shm, and the nonce.
//   2. The called takes what was left, maps it and finds the same nonce in it: so it is one memory, and one network
//      namespace. It writes its own nonce there, passes its signal's descriptor back and says: shm, and its nonce.
//   3. The caller finds that nonce in its segment.
// Whatever fails on the way, either says "plain" instead, and the base lane carries the bytes; the reason is kept for
// Describe. What each writes comes before what it says, so nobody waits for anything but the base lane.
//
// Afterwards the base lane carries nothing. Its end is the peer's: shut down, or dead.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "transport/fd.h"
#include "transport/lane.h"
#include "transport/shm/bell.h"
#include "transport/shm/call.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

// What a lane needs of its endpoint.
struct LaneContext {
  Rank self = kNoRank;
  std::size_t ring_bytes = 0;
  int signal = -1;                                                   // of the owner's bell, to be passed on
  std::string peer_socket;                                           // the abstract name of the peer's endpoint
  std::function<std::optional<Call>(const CallMessage&)> find_call;  // that this one left; nothing: it did not
  std::function<bool(Nonce&)> draw_nonce;
  std::function<void(std::string_view)> step;
};

class ShmLane final : public Lane {
 public:
  // `base` outlives the lane, and is nobody else's to use.
  ShmLane(LaneContext context, Lane& base, std::uint32_t index);

  Rank peer() const override { return base_.peer(); }
  LaneState state() const override { return state_; }
  const Error* failure() const override;

  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override;
  std::uint64_t released() const override;
  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  bool sends_device_memory() const override { return is_plain() && base_.sends_device_memory(); }
  bool end_arrived() const override { return is_plain() && base_.end_arrived(); }
  std::uint64_t consumed() const override;
  void Revoke() override;

  // ---- for the endpoint ----

  // Goes on with coming to be, or looks how the base lane stands. A change of state shows only after this.
  void Poll();
  // True: do not sleep. Else the signal, or the base lane, will tell.
  bool Arm();
  void Disarm();
  void ShutDown() { may_send_ = false; }
  bool is_plain() const { return phase_ == Phase::kPlain; }
  // Whether Describe says something new since this was last asked.
  bool TakeChanged() { return std::exchange(changed_, false); }
  // "shm (256 KiB each way)", or why not.
  std::string Describe() const;

 private:
  // The caller calls, tells, hears; the called hears, tells.
  enum class Phase : std::uint8_t { kBase, kCalling, kTelling, kHearing, kShared, kPlain };
  enum class Kind : std::uint8_t { kShared = 1, kPlain = 2 };
  struct Verdict;

  bool is_caller() const { return context_.self > base_.peer(); }
  void Agree();
  // False: not yet.
  bool CallPeer();
  bool SendVerdict();
  bool ReadVerdict();
  // What becomes of a call; an error says why it does not come to shared memory.
  Status LeaveCall();
  Status AnswerCall(const Verdict& theirs);
  Status TakeAnswer(const Verdict& theirs);
  void Say(Kind kind);
  void Settle(int side);
  void Take(std::size_t bytes);
  void AdoptBase();
  void FailWith(ErrorCode code, std::string message);
  void LookForEnd();

  const LaneContext context_;
  Lane& base_;
  const std::uint32_t index_;
  Phase phase_ = Phase::kBase;
  LaneState state_ = LaneState::kConnecting;
  std::optional<Error> failure_;
  std::string why_plain_;
  bool may_send_ = true;
  bool base_over_ = false;  // the base lane has ended or failed
  bool revoked_ = false;
  bool write_short_ = false;  // the last Write took less than it was given
  bool changed_ = false;
  std::size_t shown_ = 0;  // by Peek, and not consumed

  // Coming to be.
  alignas(kLineBytes) std::array<std::byte, kLineBytes> out_{};
  alignas(kLineBytes) std::array<std::byte, kLineBytes> in_{};
  std::size_t out_sent_ = kLineBytes;  // nothing to say yet
  std::size_t in_read_ = 0;
  Nonce nonce_{};
  Fd connection_;

  // Shared.
  std::optional<Segment> segment_;
  std::optional<RingProducer<Counter>> producer_;
  std::optional<RingConsumer<Counter>> consumer_;
  Fd peer_signal_;
  std::optional<Bell> own_bell_;
  std::optional<Bell> peer_bell_;
};

}  // namespace rondo::shm
