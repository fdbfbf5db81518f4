// How the intranode path divides the shared segment (transport/shared_segment.h). Each rank has a part of the segment
// that only it writes:
//
//   [ slot | payload ][ slot | payload ][ counters ]
//     even rounds       odd rounds
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "collectives/engine/frame.h"
#include "transport/shared_segment.h"

namespace rondo {

class IntranodeSegment {
 public:
  static constexpr std::size_t kInlineBytes = 32;
  // The first cache line of a slot. If a payload does not fit into `inlined`, all of it is stored after this line.
  struct alignas(kLineBytes) Slot {
    std::atomic<std::uint64_t> round;
    std::array<std::byte, kDescriptorBytes> descriptor;
    std::array<std::byte, kInlineBytes> inlined;
  };
  static_assert(sizeof(Slot) == kLineBytes);
  // The counts of windows are totals over all operations of the communicator.
  struct Counters {
    alignas(kLineBytes) std::atomic<std::uint64_t> folded;
    alignas(kLineBytes) std::atomic<std::uint64_t> copied;
    std::atomic<bool> withdrawn;     // the rank's memory belongs to its user again; never reset
    std::atomic<std::int32_t> core;  // 1 + number of the core on which the rank ran most recently; 0: unknown
  };

  // REQUIRES: the shared segment is ready and outlives this object; it has `world_size` ranks, at least 2.
  IntranodeSegment(Rank rank, int world_size, SharedSegment& shared_segment);

  Rank rank() const { return rank_; }
  int world_size() const { return world_size_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }  // maximum payload of a slot

  Slot& SlotOf(Rank rank, std::uint64_t round) const {
    const std::size_t at = (round % 2) * (sizeof(Slot) + slot_bytes_);
    return *reinterpret_cast<Slot*>(parts_[static_cast<std::size_t>(rank)] + at);
  }
  std::byte* PayloadOf(Rank rank, std::uint64_t round) const {
    return reinterpret_cast<std::byte*>(&SlotOf(rank, round)) + sizeof(Slot);
  }
  std::byte* InlineOf(Rank rank, std::uint64_t round) const { return SlotOf(rank, round).inlined.data(); }
  Counters& CountersOf(Rank rank) const {
    return *reinterpret_cast<Counters*>(parts_[static_cast<std::size_t>(rank)] + 2 * (sizeof(Slot) + slot_bytes_));
  }
  // Wakes sleeping ranks. Must be called after every publication.
  void WakeWaiters() const { shared_segment_.WakeWaiters(); }
  SharedSegment& shared_segment() const { return shared_segment_; }

  // Any thread. Marks this rank's memory as belonging to its user again. Peers deliver no result for which they read
  // the memory afterwards. REQUIRES: the user has not accessed the memory yet.
  void Withdraw() const {
    CountersOf(rank_).withdrawn.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  bool HasWithdrawn(Rank rank) const { return CountersOf(rank).withdrawn.load(std::memory_order_relaxed); }
  // Whether any rank has withdrawn its memory. REQUIRES: this rank has ended all reads of peers' memory.
  bool AnyHasWithdrawn() const;

 private:
  const Rank rank_;
  const int world_size_;
  SharedSegment& shared_segment_;
  std::vector<std::byte*> parts_;  // indexed by rank
  std::uint64_t slot_bytes_ = 0;
};

// For each rank: how many windows of the running operation it has folded (reduced), and how many it has copied out. A
// rank publishes a count with release after its last access to the window's bytes. A peer loads the count, at least
// with acquire, before its first access.
class WindowCounts {
 public:
  explicit WindowCounts(const IntranodeSegment& segment) : segment_(segment) {}

  // The number of windows of all earlier operations.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t FoldedBy(Rank rank) const {
    return segment_.CountersOf(rank).folded.load(std::memory_order_seq_cst) - begin_;
  }
  std::uint64_t CopiedBy(Rank rank) const {
    return segment_.CountersOf(rank).copied.load(std::memory_order_seq_cst) - begin_;
  }
  void PublishFolded(std::uint64_t windows) const {
    segment_.CountersOf(segment_.rank()).folded.store(begin_ + windows, std::memory_order_release);
    segment_.WakeWaiters();
  }
  void PublishCopied(std::uint64_t windows) const {
    segment_.CountersOf(segment_.rank()).copied.store(begin_ + windows, std::memory_order_release);
    segment_.WakeWaiters();
  }
  // Ends an operation of `windows` windows. All ranks end with equal counts, even ranks that copied nothing out.
  void End(std::uint64_t windows) {
    begin_ += windows;
    segment_.CountersOf(segment_.rank()).copied.store(begin_, std::memory_order_release);
  }

 private:
  const IntranodeSegment& segment_;
  std::uint64_t begin_ = 0;
};

}  // namespace rondo
