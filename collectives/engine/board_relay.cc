// Large reductions on a board: a relay. A window goes from rank to rank, and each folds into it what it brings; the
// last one's fold is the result, which everybody copies out. Many windows are on their way at once.
//
//              window 0    window 1    window 2
//   rank 0     copies in   copies in   copies in
//   rank 1                 x0 op x1    ...
//   rank 2                             (x0 op x1) op x2     then all copy window 0 out
//
// Every rank touches every byte twice, whatever their number: S bytes folded, S bytes out. (Shares take (n-1)/n S in
// besides.) Where ranks outnumber cores each works off as many windows as there are, before it gives its core away.
//
// An opening turn, in which all see that they are in the same operation; the relay, over the payloads of all slots; a
// closing turn without payload, so that nobody writes a slot (turn + 1) before all have ended.
//
//   Relay::folded, copied   how many windows this rank has folded, and copied out, over all operations
//   rank r folds window w   when rank r - 1 has; rank 0 when all have copied out the one that lay there before
//   anybody copies it out   when the last rank has folded it
// Each is stored with release by its rank after its last access to the bytes, and loaded with acquire before the first.
#include <algorithm>

#include "collectives/engine/board_path.h"

namespace rondo {
namespace {

// In one go, before the caller may look at its deadlines.
constexpr int kRelayWindowsPerPoll = 16;

}  // namespace

BoardPath::Range BoardPath::RelayWindow(std::uint64_t window) const {
  const std::uint64_t begin = window * window_bytes_;
  return {begin, std::min(window_bytes_, bytes_ - begin)};
}

// Slots take turns over all operations, so that a window's slot is named by a number that all agree on.
std::byte* BoardPath::RelaySlot(std::uint64_t window) const {
  const std::uint64_t place = (relay_begin_ + window) % relay_slots();
  const std::uint64_t half = place / static_cast<std::uint64_t>(world_size_);
  const auto rank = static_cast<Rank>(place % static_cast<std::uint64_t>(world_size_));
  return Payload(rank, half);
}

std::uint64_t BoardPath::FoldedBy(Rank rank) const {
  return RelayOf(rank).folded.load(std::memory_order_seq_cst) - relay_begin_;
}

std::uint64_t BoardPath::CopiedBy(Rank rank) const {
  return RelayOf(rank).copied.load(std::memory_order_seq_cst) - relay_begin_;
}

// How many windows this rank may fold, as far as it can be seen now.
std::uint64_t BoardPath::MayFold() const {
  if (rank_ > 0) return FoldedBy(rank_ - 1);
  std::uint64_t copied = windows_;  // so everybody has folded it, too
  for (Rank r = 0; r < world_size_; ++r)
    if (Copies(r)) copied = std::min(copied, CopiedBy(r));
  return std::min(copied + relay_slots(), windows_);
}

std::uint64_t BoardPath::MayCopy() const { return Copies(rank_) ? FoldedBy(world_size_ - 1) : 0; }

bool BoardPath::Copies(Rank rank) const {
  return operation_.collective == Collective::kAllReduce || rank == operation_.root;
}

void BoardPath::BeginRelay() {
  relay_folded_ = relay_copied_ = 0;
  fold_submitted_ = copy_submitted_ = false;
}

Progress BoardPath::PollRelay() {
  bool moved = false;
  Relay& own = RelayOf(rank_);
  const std::uint64_t to_copy = Copies(rank_) ? windows_ : 0;
  for (int i = 0; i < kRelayWindowsPerPoll; ++i) {
    bool idle = true;
    if (relay_folded_ < windows_) {
      if (!fold_submitted_ && relay_folded_ < MayFold()) {
        FoldWindow(relay_folded_);
        fold_submitted_ = true;
      }
      if (fold_submitted_ && mover_.Done(kWrites) >= submitted_[kWrites]) {
        fold_submitted_ = idle = false;
        own.folded.store(relay_begin_ + ++relay_folded_, std::memory_order_release);
        board_.RingSleepers();
      }
    }
    if (relay_copied_ < to_copy) {
      if (!copy_submitted_ && relay_copied_ < MayCopy()) {
        const Range window = RelayWindow(relay_copied_);
        CopyOut(buffers_.output + window.begin, RelaySlot(relay_copied_), window.bytes);
        copy_submitted_ = true;
      }
      if (copy_submitted_ && mover_.Done(kCollects) >= submitted_[kCollects]) {
        copy_submitted_ = idle = false;
        own.copied.store(relay_begin_ + ++relay_copied_, std::memory_order_release);
        board_.RingSleepers();
      }
    }
    if (relay_folded_ == windows_ && relay_copied_ == to_copy) {
      if (to_copy == 0) own.copied.store(relay_begin_ + windows_, std::memory_order_release);  // where all stand
      relay_begin_ += windows_;
      return Progress::kComplete;
    }
    if (idle) return moved ? Progress::kMoved : Progress::kNothing;
    moved = true;
  }
  return Progress::kMoved;
}

void BoardPath::FoldWindow(std::uint64_t number) {
  const Range window = RelayWindow(number);
  std::byte* const slot = RelaySlot(number);
  const std::byte* const own = Source() + window.begin;
  if (rank_ == 0) return Copy(kWrites, slot, own, window.bytes);
  const bool last = rank_ == world_size_ - 1;
  Submit(kWrites, {.kind = last && divides_ ? MoveKind::kReduceDivide : MoveKind::kReduce,
                   .destination = slot,
                   .left = slot,
                   .right = own,
                   .bytes = window.bytes,
                   .left_is_input = rank_ == 1,
                   .right_is_input = true});
}

bool BoardPath::RelayHasNews() const {
  return relay_folded_ < MayFold() || relay_copied_ < std::min(MayCopy(), windows_);
}

Rank BoardPath::FirstNotToHaveFolded(std::uint64_t window) const {
  Rank first = 0;
  while (first < world_size_ && FoldedBy(first) > window) ++first;
  return first;
}

// The first in the row that has not folded the window that this rank needs next; or, where that one lacks a slot, who
// holds on to what lies there.
bool BoardPath::RelayWaitsFor(Rank peer) const {
  if (RelayHasNews()) return false;
  const std::uint64_t window = relay_folded_ < windows_ ? relay_folded_ : relay_copied_;
  if (window >= relay_slots() && FoldedBy(0) <= window) {
    const std::uint64_t before = window - relay_slots();
    const Rank first = FirstNotToHaveFolded(before);
    if (first < world_size_) return first == peer;
    bool kept = false;
    for (Rank r = 0; r < world_size_; ++r) kept = kept || (Copies(r) && CopiedBy(r) <= before);
    if (kept) return Copies(peer) && CopiedBy(peer) <= before;
  }
  return FirstNotToHaveFolded(window) == peer;
}

}  // namespace rondo
