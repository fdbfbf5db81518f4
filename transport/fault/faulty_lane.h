// A lane on which the faults of a plan happen, around any transport's lane. What its own rank writes is cut, corrupted,
// stalled and sliced here; what it reads is sliced (the peer's faulty lane did the rest).
//
// The contract of lane.h is kept: offsets are those of the lane inside, since every byte passes in its order, a
// corrupted one from a place of its own that lives as long as the lane.
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
  // `inner` outlives it.
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
  // Whether a call answered less than there was and the owner has not been told since, or a stall with an end is on:
  // nothing else would wake a sleeper then.
  bool TakeNews();

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // A fault on what this rank writes.
  struct Use {
    std::size_t fault = 0;  // index in the plan
    bool done = false;
    bool waiting = false;            // of a stall: it withholds something
    std::optional<TimePoint> until;  // of a stall that waits, as soon as the time is known
  };
  // What may pass at the present offset.
  struct Ahead {
    std::uint64_t bytes = kNever;       // until something stops or cuts the lane; 0: it does
    std::uint64_t until_flip = kNever;  // until a byte to corrupt; 0: it is next
  };

  const Fault& At(const Use& use) const { return injector_->plan().faults[use.fault]; }
  // Carries out what is due at the present offset. `wants`: something is there to be stalled.
  Ahead Settle(bool wants);
  void Cut(Use& use);
  std::byte FlipMaskAt(std::uint64_t offset);
  void MarkFlipped(std::uint64_t offset);
  std::size_t Tamper(std::span<const Bytes> pieces);
  // At most `most` bytes of the pieces, from the one at `skip` on.
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
  bool tampers_ = false;  // with what is written

  std::optional<Error> failure_;
  std::vector<Bytes> parts_;       // scratch of Pass
  std::deque<std::byte> flipped_;  // lent to the lane inside
  std::size_t shown_ = 0;          // by Peek, and not consumed
  // What the owner is to be told before it sleeps: arrived bytes were not shown; a stall has ended.
  bool hidden_ = false;
  bool freed_ = false;
};

}  // namespace rondo::fault
