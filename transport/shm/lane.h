// A lane between two processes of one host: two rings in a segment of shared memory, and a lane of the base transport
// (transport/upgrade/lane.h).
//
// How a lane is made: the base lane is made first, as between any two ranks. Over the base lane the two ends agree
// whether they share memory, with one message of kLineBytes in each direction:
//   1. The initiator (the higher rank) makes a segment and connects to the abstract socket of the other endpoint. Over
//      that socket it sends its nonce, with two descriptors: the segment and its own event descriptor. Then it sends
//      kShared and the nonce over the base lane.
//   2. The other end receives both messages, maps the segment and finds the same nonce in it. This proves that both
//      ends share that memory and a network namespace. The other end writes its own nonce into the segment, passes its
//      event descriptor back, and sends kShared and its nonce over the base lane.
//   3. The initiator finds that nonce in its segment.
// If a step fails at one end, that end sends kPlain instead, and the base lane carries the bytes. Describe gives the
// reason. Each end writes its nonce and passes descriptors before it sends its message, so each end has to wait only
// for the base lane.
//
// After the ends have agreed on shared memory, a lane sends nothing over its base lane.
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

// The message that each end sends over the base lane, before the stream. It fills a whole cache line, so that the
// stream stays aligned.
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

// What a lane gets from its endpoint.
struct LaneContext {
  std::size_t ring_bytes = 0;
  int signal = -1;          // this endpoint's event descriptor, which is passed to the peer
  std::string peer_socket;  // the abstract name of the peer's endpoint
  std::function<std::optional<ConnectRequest>(const ConnectMessage&)>
      find_request;  // returns the peer's request with the given nonce; empty: it has not arrived yet
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
  // True: the owner must not sleep. After false the event descriptor or the base lane wakes the owner.
  bool Arm();
  void Disarm();
  void ShutDown() { may_send_ = false; }
  bool is_plain() const { return phase_ == Phase::kPlain; }
  // A text such as "shm (256 KiB each way)", or the reason why the lane does not use shared memory.
  std::string Describe() const;

 private:
  // The initiator goes through kRequesting, kSending and kAwaiting. The other end goes through kAwaiting and kSending.
  enum class Phase : std::uint8_t { kBase, kRequesting, kSending, kAwaiting, kShared, kPlain };

  void Agree();
  // False: the request could not be sent yet.
  bool RequestPeer();
  // The steps of the agreement. An error says why the ends cannot share memory.
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
  bool write_short_ = false;  // the latest Write took only a part of its bytes
  std::size_t shown_ = 0;     // bytes that Peek has returned and that are not consumed yet

  // The messages of the agreement on the path.
  MessageSender<Verdict> out_;
  MessageReader<Verdict> in_;
  Nonce nonce_{};
  Fd connection_;

  // Used if the lane shares memory.
  std::optional<Segment> segment_;
  std::optional<RingProducer<Counter>> producer_;
  std::optional<RingConsumer<Counter>> consumer_;
  Fd peer_signal_;
  std::optional<SharedDoorbell> own_bell_;
  std::optional<SharedDoorbell> peer_bell_;
};

}  // namespace rondo::shm
