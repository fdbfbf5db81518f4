// The rounds of the intranode path: in each round every rank writes its slot, publishes it, and reads the slots that it
// needs. A rank writes its slot for round r only after every rank has published its slot for round r - 1. So every rank
// has ended round r - 2, whose slot is now overwritten, and no rank is ever more than one round ahead.
//
//   Slot::round  The slot's rank stores it last, with release. This publishes descriptor and payload to every rank that
//                loads it with acquire. (SharedSegment::WakeWaiters looks for sleeping ranks after the store.) A rank
//                reads a slot of round r - 2 before it stores round r - 1 with release; the rank that overwrites the
//                slot has loaded that store with acquire.
//
// A slot carries the operation's descriptor, as every frame does, so that an error about ranks that disagree can name
// both operations.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/result.h"
#include "collectives/engine/frame.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class SlotRounds {
 public:
  // The ranks whose slots this rank reads in a round.
  enum class Wanted : std::uint8_t {
    kAll,
    kAllTogether,  // all ranks, but no slot is read before all slots have arrived
    kRoot,
    kNone,
  };

  // Both arguments must outlive this object; `operation` always holds the running operation.
  SlotRounds(const IntranodeSegment& segment, const OperationDescriptor& operation);

  void StartOperation() { Encode(operation_, descriptor_); }

  void Begin(Wanted wanted) {
    ++round_;
    state_ = State::kAwaitingSlot;
    wanted_ = wanted;
    next_ = 0;
  }
  // The number of the running round; if none runs, of the latest one. Rounds are counted over all operations.
  std::uint64_t round() const { return round_; }

  bool is_awaiting_slot() const { return state_ == State::kAwaitingSlot; }
  bool is_published() const { return state_ == State::kPublished; }
  // Whether every rank has published the previous round, so that this rank may write its slot. An error: a rank was in
  // another operation in that round. That round might not have detected this, because not every slot is read in every
  // round. REQUIRES: is_awaiting_slot().
  Result<bool> MayWrite();
  // Must be called when the caller begins to write the slot.
  void OnWriting() { state_ = State::kWriting; }
  void Publish();
  // Calls collect(rank) once for each wanted slot that has arrived, in rank order. False: a wanted slot has not
  // arrived. REQUIRES: is_published().
  template <typename Collect>
  Result<bool> TakeArrived(bool& moved, Collect collect);

  bool WaitsFor(Rank peer) const;
  bool HasNews() const;
  // Prefetches this rank's next slot for writing, with `payload_bytes` of its payload. Other ranks may still have
  // the slot's cache lines from two rounds ago; taking the lines back takes half of the time of a short round.
  void FetchNextSlot(std::uint64_t payload_bytes) const;

 private:
  using DescriptorBytes = std::array<std::byte, kDescriptorBytes>;
  using Slot = IntranodeSegment::Slot;
  enum class State : std::uint8_t { kAwaitingSlot, kWriting, kPublished };

  // Uses memcmp, because operator== of std::array<std::byte> compares byte by byte.
  static bool AreEqual(const DescriptorBytes& left, const DescriptorBytes& right) {
    return std::memcmp(left.data(), right.data(), kDescriptorBytes) == 0;
  }
  bool Needs(Rank rank) const {
    return wanted_ <= Wanted::kAllTogether || (wanted_ == Wanted::kRoot && rank == operation_.root);
  }
  Error Mismatch(Rank rank, const Slot& slot) const;
  Error Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const;

  const IntranodeSegment& segment_;
  const OperationDescriptor& operation_;
  const Rank rank_;
  const int world_size_;
  std::vector<std::uint64_t> known_;  // for each rank: the latest round that it is known to have published
  std::uint64_t round_ = 0;
  State state_ = State::kAwaitingSlot;
  Wanted wanted_ = Wanted::kAll;
  Rank next_ = 0;                      // the rank whose slot is taken next
  DescriptorBytes descriptor_{};       // operation_.descriptor, encoded
  DescriptorBytes last_descriptor_{};  // the descriptor that this rank has published most recently
};

template <typename Collect>
Result<bool> SlotRounds::TakeArrived(bool& moved, Collect collect) {
  for (; next_ < world_size_; ++next_) {
    if (!Needs(next_)) continue;
    const Slot& slot = segment_.SlotOf(next_, round_);
    const std::uint64_t round = slot.round.load(std::memory_order_acquire);
    if (round < round_) return false;
    if (round != round_ || !AreEqual(slot.descriptor, descriptor_)) return Fail(Mismatch(next_, slot));
    known_[static_cast<std::size_t>(next_)] = round;
    collect(next_);
    moved = true;
  }
  return true;
}

}  // namespace rondo
