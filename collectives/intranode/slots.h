// Collectives through slots: copy in, copy out. A rank writes data for other ranks into its slot once, and they read it
// there (rounds.h).
//
//            rank 0   rank 1   rank 2
//   slots    [ x0 ]   [ x1 ]   [ x2 ]      written, then published by the number of the round
//               \        |        /
//   readers: (x0 op x1) op x2              a left fold: every rank gets the same bits, as from any other left fold
//
//   barrier                             one round without payload
//   all_reduce, reduce, short           one round: every rank folds all slots (reduce: the root does)
//   all_reduce, reduce, longer          windows of two rounds. First every rank folds its own share of the window into
//                                       its other slot; then every rank (reduce: the root) copies all shares out
//   all_gather, gather, broadcast       one window in each round, at most as large as a slot
//   reduce_scatter, scatter, all_to_all one window in each round; a slot has a piece for every rank
//
// Because large vectors are cut into windows, they move through slots that stay in the second-level caches. With a
// vector of S bytes and n ranks, an all_reduce by shares copies (n-1)/n S in, folds (n-1)/n S and copies S out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/intranode/move_streams.h"
#include "collectives/intranode/operation.h"
#include "collectives/intranode/rounds.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class SlotsStrategy {
 public:
  // All arguments must outlive this object.
  SlotsStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves);

  // Cuts the operation into rounds and begins the first one.
  void Start();
  // Begins the next round. False: there is none.
  bool NextRound() {
    if (++index_ == rounds_) return false;
    window_ = Window();
    return true;
  }
  std::uint64_t index() const { return index_; }  // index of the round within the operation
  SlotRounds::Wanted wanted() const;

  // In both methods `round` is the number of the running round (SlotRounds::round).
  // Writes this rank's slot.
  void Write(std::uint64_t round);
  // Takes from a rank's slot the data that this rank needs. REQUIRES: Collect was called before for all lower ranks
  // that wanted() includes.
  void Collect(Rank rank, std::uint64_t round);

  // Approximate progress, in bytes of the vector or block.
  std::uint64_t BytesDone() const { return index_ * operation_.bytes / rounds_; }
  // The number of payload bytes that an operation of a single round writes after the slot's first cache line; 0 for
  // other operations.
  std::uint64_t BytesOfOneRound() const { return layout_ == Layout::kInline || rounds_ > 1 ? 0 : operation_.bytes; }
  // Whether this rank, when it has published its slot, should wait until its stores have left its store buffer, before
  // it reads other ranks' slots. This is so if every rank copies and then waits for the others. A rank that reads a
  // slot too early takes the slot's first cache line away from the rank that is still writing there, which then
  // publishes later. Without the wait, an all_reduce of 4 KiB among two ranks took up to half as long again.
  bool ShouldDrainStores() const {
    const std::uint64_t bytes = BytesOfOneRound();
    return bytes > 0 && bytes <= kStoreBufferBytes && wanted() == SlotRounds::Wanted::kAll;
  }

 private:
  // About as much as a store buffer holds. Most of a longer copy leaves the buffer during the copy.
  static constexpr std::uint64_t kStoreBufferBytes = 4 * 1024;

  // How the payload of a round is laid out.
  enum class Layout : std::uint8_t {
    kInline,  // the payload is in the slot's first cache line
    kWhole,   // one round for each window
    kShares,  // two rounds for each window: operands, then folded shares
  };

  std::byte* PayloadOf(Rank rank, std::uint64_t round) const {
    return layout_ == Layout::kInline ? segment_.InlineOf(rank, round) : segment_.PayloadOf(rank, round);
  }
  // Whether this is the first of a window's two rounds. Shares are folded only after all slots have arrived, because
  // the fold overwrites this rank's other slot, and until then other ranks may still read that slot.
  bool is_share_round() const { return layout_ == Layout::kShares && index_ % 2 == 0; }
  ByteRange Window() const;
  // The offset of a rank's piece in a slot that has a piece for each rank.
  std::uint64_t PieceAt(Rank rank) const;
  bool ReadsOwnSlot() const;
  void WriteOperands(std::byte* slot);
  void CollectVector(Rank rank, std::uint64_t round);
  void CollectShare(std::uint64_t round);

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  MoveStreams& moves_;
  const std::uint64_t piece_bytes_;        // maximum piece size in a slot that has a piece for each rank
  const std::uint64_t fold_by_all_bytes_;  // up to this size all_reduce takes one round

  std::uint64_t window_bytes_ = 0;
  std::uint64_t rounds_ = 1;
  Layout layout_ = Layout::kWhole;
  bool reads_own_slot_ = false;  // this rank's operands are read from its slot, not from the user's memory
  std::uint64_t index_ = 0;
  ByteRange window_;  // the window of the running round
};

}  // namespace rondo
