// Large all-reduces on a board of memory that all ranks can read where it lies (Transport::Allocate): nothing passes
// through slots.
//
//              rank 0                      rank 1
//   inputs     [ a0 | b0 ]                 [ a1 | b1 ]
//   fold       [ a0 + a1 |     ]           [     | b0 + b1 ]      each its share, straight from all inputs
//   copy       [ a0 + a1 | b0 + b1 ]       ...                    each the others' shares, straight from their outputs
//
// Of S bytes among n ranks each folds S/n and copies (n - 1)/n S, which is what there is to do. In windows, so that who
// copies finds in a cache what was just folded.
//
// Whether it can be done all ranks must see alike. A turn in which each shows where its memory lies; where all lie in
// regions, a turn in which each says whether it could map them all; then this, or the ordinary turns. At the end one
// more, after which nobody reads anybody's memory: all wait for it.
//
// A rank whose operation fails gives its memory back to its user while others may still read it. So it withdraws first,
// and who has read everything looks whether anybody has (a sequence lock's reader): what it read may then be something
// else, and the operation never ends. Why, it learns by other ways.
//
//   Relay::folded   how many windows this rank has folded, over all operations: stored with release after the last byte
//                   of the window, loaded with acquire before it is copied
//
// In place a rank's share of its own vector is read by nobody else, and the shares it copies into were read by their
// folders before they said so.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/engine/board_path.h"

namespace rondo {
namespace {

// From here on it pays to find out.
constexpr std::uint64_t kPullBytes = 128 * 1024;
constexpr std::uint64_t kPullWindowBytes = 64 * 1024;
// In one go, before the caller may look at its deadlines.
constexpr int kWindowsPerPoll = 16;

struct Shown {
  SharedPlace input, output;
};

}  // namespace

// In a pre-multiplied sum the operands that are reduced lie nowhere.
bool BoardPath::MayPull() const {
  return operation_.collective == Collective::kAllReduce && !scales_ && bytes_ >= kPullBytes;
}

void BoardPath::WritePrelude() {
  static_assert(sizeof(Shown) <= kInlineBytes);
  std::byte* const slot = Payload(rank_, turn_);
  if (stage_ == Stage::kVote) {
    *slot = std::byte{can_pull_};
    return;
  }
  board_.LetGoOfFreed();
  Shown own{board_.Locate(Bytes(Source(), bytes_)), board_.Locate(Bytes(buffers_.output, bytes_))};
  const auto is_shown = [&](const SharedPlace& place) { return place.region != 0 && board_.Show(place.region); };
  if (!is_shown(own.input) || !is_shown(own.output)) own = {};
  std::memcpy(slot, &own, sizeof own);
}

// All have published it.
void BoardPath::EndPrelude() {
  const auto in_slot = [&](Rank rank) { return Payload(rank, turn_); };
  if (stage_ == Stage::kVote) {
    bool all = true;
    for (Rank r = 0; r < world_size_; ++r) all = all && *in_slot(r) != std::byte{0};
    stage_ = Stage::kMain;
    if (all) BeginPull();
    return;
  }
  bool all_shown = true;
  can_pull_ = true;
  for (Rank r = 0; r < world_size_; ++r) {
    Shown shown;
    std::memcpy(&shown, in_slot(r), sizeof shown);
    all_shown = all_shown && shown.input.region != 0;
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    lent = {};
    if (r == rank_) {
      lent = {Source(), buffers_.output};
    } else if (shown.input.region != 0) {
      lent = {board_.Find(r, shown.input, bytes_), board_.Find(r, shown.output, bytes_)};
    }
    can_pull_ = can_pull_ && lent.input != nullptr && lent.output != nullptr;
  }
  stage_ = all_shown ? Stage::kVote : Stage::kMain;
}

void BoardPath::BeginPull() {
  ++all_pulls_;
  pulls_ = in_pull_ = true;
  relays_ = two_turns_ = false;
  turns_ = 1;
  window_bytes_ = std::min(kPullWindowBytes, slot_bytes_ / kLineBytes * kLineBytes);
  windows_ = DivCeil(ShareOf(0, {0, bytes_}).bytes, window_bytes_);
  relay_folded_ = 0;
  fold_submitted_ = false;
  for (Lent& lent : lent_) lent.taken = 0;
  lent_[static_cast<std::size_t>(rank_)].taken = windows_;
}

BoardPath::Range BoardPath::PullWindow(Rank rank, std::uint64_t window) const {
  const Range share = ShareOf(rank, {0, bytes_});
  const std::uint64_t at = std::min(window * window_bytes_, share.bytes);
  return {share.begin + at, std::min(window_bytes_, share.bytes - at)};
}

Progress BoardPath::PollPull() {
  bool moved = false;
  for (int i = 0; i < kWindowsPerPoll; ++i) {
    bool idle = true;
    if (relay_folded_ < windows_) {
      if (!fold_submitted_) PullFold(PullWindow(rank_, relay_folded_));
      fold_submitted_ = true;
      if (mover_.Done(kWrites) >= submitted_[kWrites]) {
        fold_submitted_ = idle = false;
        RelayOf(rank_).folded.store(relay_begin_ + ++relay_folded_, std::memory_order_seq_cst);
        board_.RingSleepers();
      }
    }
    bool all_taken = true;
    for (Rank r = 0; r < world_size_; ++r) {
      Lent& lent = lent_[static_cast<std::size_t>(r)];
      if (lent.taken < windows_ && lent.taken < FoldedBy(r)) {
        const Range range = PullWindow(r, lent.taken++);
        CopyOut(buffers_.output + range.begin, lent.output + range.begin, range.bytes);
        idle = false;
      }
      all_taken = all_taken && lent.taken == windows_;
    }
    if (relay_folded_ == windows_ && all_taken && mover_.Done(kCollects) >= submitted_[kCollects]) {
      if (AnyHasWithdrawn()) return Progress::kNothing;
      RelayOf(rank_).copied.store(relay_begin_ + windows_, std::memory_order_seq_cst);  // where all stand
      relay_begin_ += windows_;
      return Progress::kComplete;
    }
    if (idle) return moved ? Progress::kMoved : Progress::kNothing;
    moved = true;
  }
  return Progress::kMoved;
}

bool BoardPath::HasWithdrawn(Rank rank) const { return RelayOf(rank).withdrawn.load(std::memory_order_relaxed); }

// REQUIRES: comes after the last look at anybody's memory.
bool BoardPath::AnyHasWithdrawn() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (Rank r = 0; r < world_size_; ++r)
    if (HasWithdrawn(r)) return true;
  return false;
}

// Before the user's first.
void BoardPath::Withdraw() {
  RelayOf(rank_).withdrawn.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void BoardPath::PullFold(const Range& range) {
  if (range.bytes == 0) return;
  std::byte* const output = buffers_.output + range.begin;
  const std::byte* own = Source() + range.begin;
  if (in_place_ && rank_ >= 2) {  // the fold of the lower ranks overwrites it
    Copy(kWrites, Payload(rank_, turn_), own, range.bytes);
    own = Payload(rank_, turn_);
  }
  const auto brought = [&](Rank by) {
    return by == rank_ ? own : lent_[static_cast<std::size_t>(by)].input + range.begin;
  };
  for (Rank r = 1; r < world_size_; ++r) {
    const bool last = r == world_size_ - 1;
    Submit(kWrites, {.kind = last && divides_ ? MoveKind::kReduceDivide : MoveKind::kReduce,
                     .destination = output,
                     .left = r == 1 ? brought(0) : output,
                     .right = brought(r),
                     .bytes = range.bytes});
  }
}

bool BoardPath::PullWaitsFor(Rank peer) const {
  const std::uint64_t taken = lent_[static_cast<std::size_t>(peer)].taken;
  return relay_folded_ == windows_ && ((taken < windows_ && taken >= FoldedBy(peer)) || HasWithdrawn(peer));
}

bool BoardPath::PullHasNews() const {
  if (relay_folded_ < windows_) return true;
  bool waits = false;
  for (Rank r = 0; r < world_size_; ++r) {
    const std::uint64_t taken = lent_[static_cast<std::size_t>(r)].taken;
    if (taken < windows_ && taken < FoldedBy(r)) return true;
    waits = waits || taken < windows_;
  }
  return !waits && !AnyHasWithdrawn();
}

}  // namespace rondo
