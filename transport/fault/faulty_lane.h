// Applies the faults of a plan to any transport's lane. Bytes that this rank writes are cut, corrupted, stalled and
// sliced here. Bytes that it reads are only sliced, because the peer's faulty lane applies the other faults.
//
// This lane keeps the contract of lane.h. Its offsets are those of the inner lane, because all bytes pass in order. A
// corrupted byte is copied to memory that lives as long as the lane.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "transport/fault/fault_injector.h"
#include "transport/lane.h"

namespace rondo::fault {

class FaultyLane final : public Lane {
 public:
  // `inner` must outlive the lane.
  FaultyLane(Lane& inner, Rank self, std::uint32_t index, std::shared_ptr<FaultInjector> injector);

  Rank peer() const override { return inner_.peer(); }
  LaneState state() const override { return failure_ ? LaneState::kFailed : inner_.state(); }
  const Error* failure() const override { return failure_ ? &*failure_ : inner_.failure(); }

  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override { return inner_.accepted(); }
  std::uint64_t released() const override { return inner_.released(); }

  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t stream_offset, MutableBytes destination) override {
    return inner_.Expect(stream_offset, destination);
  }
  bool end_arrived() const override { return inner_.end_arrived(); }
  std::uint64_t consumed() const override { return inner_.consumed(); }
  void Revoke() override { inner_.Revoke(); }

  // ---- for the endpoint ----

  void Poll(TimePoint now);
  // True: the owner must not sleep, because no event would wake it. Either a call since the owner's latest check has
  // returned fewer bytes than had arrived, or a stall that will end holds bytes back.
  bool TakeNews();

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // A fault on the bytes that this rank writes.
  struct Use {
    std::size_t fault = 0;  // index of the fault in the plan
    bool done = false;
    bool waiting = false;            // for a stall: the stall holds bytes back
    std::optional<TimePoint> until;  // the end of a stall that holds bytes back; nullopt: not known yet
  };
  // The number of bytes that may pass, counted from the current offset.
  struct Ahead {
    std::uint64_t bytes = kNever;       // the number of bytes before the next stall, cut or kill; 0: it is due now
    std::uint64_t until_flip = kNever;  // the number of bytes before the next byte to corrupt
  };

  const Fault& At(const Use& use) const { return injector_->plan().faults[use.fault]; }
  // Executes the faults that are due at the current offset. `wants`: whether there are bytes that a stall could hold
  // back.
  Ahead Settle(bool wants);
  void Cut(Use& use);
  std::byte FlipMaskAt(std::uint64_t offset);
  void MarkFlipped(std::uint64_t offset);
  std::size_t Tamper(std::span<const Bytes> pieces);
  // Passes bytes of the pieces to the inner lane: at most `most`, starting `skip` bytes after their beginning. Returns
  // the number of bytes that the inner lane took.
  std::size_t Pass(std::span<const Bytes> pieces, std::uint64_t skip, std::uint64_t most);
  std::size_t PassFlipped(std::span<const Bytes> pieces, std::uint64_t skip);
  std::size_t PassToInner(std::span<const Bytes> pieces);

  Lane& inner_;
  const Rank self_;
  const std::uint32_t index_;
  const std::shared_ptr<FaultInjector> injector_;
  std::vector<Use> uses_;
  std::vector<std::size_t> write_slices_;  // indices in the plan
  std::vector<std::size_t> read_slices_;
  std::uint64_t write_slice_bytes_ = kNever;
  std::uint64_t read_slice_bytes_ = kNever;
  bool tampers_ = false;  // whether any fault concerns written bytes

  std::optional<Error> failure_;
  std::vector<Bytes> parts_;       // scratch of Pass
  std::deque<std::byte> flipped_;  // corrupted bytes, which the inner lane reads
  std::size_t shown_ = 0;          // bytes that Peek has returned and that are not consumed yet
  // Reasons why the owner must not sleep. hidden_: arrived bytes were not returned. freed_: a stall has ended.
  bool hidden_ = false;
  bool freed_ = false;
};

}  // namespace rondo::fault
