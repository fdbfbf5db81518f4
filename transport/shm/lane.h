// A lane between two processes of one host: two rings in a segment, beside a lane of the base transport
// (transport/upgrade/lane.h).
//
// How it comes to be. The base lane is made first, as between any two ranks. Over it the two agree, with one message of
// kLineBytes each way, whether they share memory:
//   1. The higher rank, the initiator, makes a segment, calls the other endpoint's abstract socket and leaves there the
//      segment's and its own signal's descriptor, and its nonce. Then it says over the base lane: shm, and the nonce.
//   2. The other takes what was left, maps it and finds the same nonce in it: so it is one memory, and one network
//      namespace. It writes its own nonce there, passes its signal's descriptor back and says: shm, and its nonce.
//   3. The initiator finds that nonce in its segment.
// Whatever fails on the way, either says "plain" instead, and the base lane carries the bytes; the reason is kept for
// Describe. What each writes comes before what it says, so nobody waits for anything but the base lane.
//
// Afterwards the base lane carries nothing.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/net/fd.h"
#include "transport/shm/connect_request.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"
#include "transport/shm/shared_doorbell.h"
#include "transport/upgrade/lane.h"

namespace rondo::shm {

// What one end says over the base lane, in front of the stream: a line, so that the stream is as aligned as before.
struct Verdict {
  enum class Kind : std::uint8_t { kShared = 1, kPlain = 2 };
  static constexpr std::uint64_t kMagic = 0x746369647265762d;

  std::uint64_t magic = kMagic;
  Kind kind = Kind::kPlain;
  std::array<std::byte, 7> reserved{};
  Nonce nonce{};
  std::array<std::byte, 32> rest_of_line{};
};
static_assert(sizeof(Verdict) == kLineBytes);

// What a lane needs of its endpoint.
struct LaneContext {
  std::size_t ring_bytes = 0;
  int signal = -1;          // of the owner's bell, to be passed on
  std::string peer_socket;  // the abstract name of the peer's endpoint
  std::function<std::optional<ConnectRequest>(const ConnectMessage&)>
      find_request;  // that this one left; nothing: it did not
  std::function<bool(Nonce&)> draw_nonce;
  std::function<void(std::string_view)> step;
};

class ShmLane final : public UpgradedLane {
 public:
  ShmLane(LaneContext context, Lane& base, Rank self, std::uint32_t index);

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

  // ---- for the endpoint ----

  void Poll(TimePoint now);
  // True: do not sleep. Else the signal, or the base lane, will tell.
  bool Arm();
  void Disarm();
  void ShutDown() { may_send_ = false; }
  bool is_plain() const { return phase_ == Phase::kPlain; }
  // "shm (256 KiB each way)", or why not.
  std::string Describe() const;

 private:
  // The initiator calls, tells, hears; the other hears, tells.
  enum class Phase : std::uint8_t { kBase, kRequesting, kSending, kAwaiting, kShared, kPlain };

  void Agree();
  // False: not yet.
  bool RequestPeer();
  // What becomes of a call; an error says why it does not come to shared memory.
  Status LeaveRequest();
  Status AnswerRequest(const Verdict& theirs);
  Status TakeAnswer(const Verdict& theirs);
  void SendVerdict(Verdict::Kind kind);
  void Settle(int side);
  void Take(std::size_t bytes);
  void AdoptBase();
  void LookForEnd();

  const LaneContext context_;
  Phase phase_ = Phase::kBase;
  std::string why_plain_;
  bool base_over_ = false;    // the base lane has ended or failed
  bool write_short_ = false;  // the last Write took less than it was given
  std::size_t shown_ = 0;     // by Peek, and not consumed

  // Coming to be.
  MessageSender<Verdict> out_;
  MessageReader<Verdict> in_;
  Nonce nonce_{};
  Fd connection_;

  // Shared.
  std::optional<Segment> segment_;
  std::optional<RingProducer<Counter>> producer_;
  std::optional<RingConsumer<Counter>> consumer_;
  Fd peer_signal_;
  std::optional<SharedDoorbell> own_bell_;
  std::optional<SharedDoorbell> peer_bell_;
};

}  // namespace rondo::shm
