// What a rank reads in the memory of its peers in one operation, and how much of that it has done: it folds a part of
// the operands of all, and copies a piece of the memory of some.
//
//              rank 0                      rank 1
//   inputs     [ a0 | b0 ]                 [ a1 | b1 ]
//   fold       [ a0 + a1 |     ]           [     | b0 + b1 ]      each its share, straight from all inputs
//   copy       [ a0 + a1 | b0 + b1 ]       ...                    each the others' shares, straight from their outputs
//
// That is an all_reduce by shares: of S bytes among n ranks each folds S/n and copies (n - 1)/n S, which is the least
// possible. It may also be folded whole by every rank, which spares a wait. A reduce_scatter only folds, as the root of
// a reduce does; broadcast, gathers, scatter and all_to_all only copy.
//
// All goes in windows. Each rank folds all of its share before it copies others': otherwise ranks take lines from each
// other's caches while those are written (a sixth more time at 4 and 16 MiB among two).
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/intranode/operation.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class PeerReads {
 public:
  // A piece of a peer's memory that this rank copies.
  struct Piece {
    std::uint64_t from = 0;   // in that memory
    std::uint64_t to = 0;     // in this rank's output
    std::uint64_t bytes = 0;  // 0: none
    std::uint64_t taken = 0;  // windows
  };

  // All arguments outlive it.
  PeerReads(const IntranodeSegment& segment, const IntranodeOperation& operation, WindowCounts& counts);

  // Bytes that a rank's input has for its peers.
  std::uint64_t InputBytesOf(Rank rank) const;
  const std::byte* own_input() const;
  // Whether peers may read this rank's result, too.
  bool shares_results() const { return operation_.collective() == Collective::kAllReduce; }

  // `by_shares`: each rank folds its share of an all_reduce, and all copy the others'.
  void Start(bool by_shares, std::uint64_t window_bytes);
  bool by_shares() const { return by_shares_; }
  std::uint64_t window_bytes() const { return window_bytes_; }

  // The fold: where it is in this rank's output, and where its operands begin in the inputs.
  const ByteRange& fold() const { return fold_; }
  std::uint64_t fold_from() const { return fold_from_; }
  bool has_folded() const { return folded_ == windows_; }
  ByteRange NextFoldWindow() const { return WindowOf(fold_, folded_); }
  void OnFoldedWindow() { OnFolded(folded_ + 1); }
  void OnFoldedAll() { OnFolded(windows_); }

  // The copies. How many windows of a peer's piece may be taken now, so many at most.
  std::uint64_t MayTake(Rank peer, std::uint64_t max_windows) const;
  const Piece& piece(Rank peer) const { return pieces_[static_cast<std::size_t>(peer)]; }
  // The next windows of a piece, as a range of the peer's memory.
  ByteRange NextOfPiece(Rank peer, std::uint64_t windows) const;
  void OnTaken(Rank peer, std::uint64_t windows) { pieces_[static_cast<std::size_t>(peer)].taken += windows; }

  // Whether all is folded and taken. REQUIRES of the caller: End afterwards, once.
  bool IsDone() const;
  void End();

  bool WaitsFor(Rank peer) const;
  bool HasNews() const;
  // What is done of the vector or block, about.
  std::uint64_t BytesDone() const;

 private:
  void ChoosePiece(Rank peer, Piece& piece) const;
  void ChooseFold();
  ByteRange WindowOf(const ByteRange& all, std::uint64_t window) const;
  void OnFolded(std::uint64_t windows);

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  WindowCounts& counts_;

  bool by_shares_ = false;
  std::uint64_t window_bytes_ = 0;
  std::uint64_t windows_ = 0;
  ByteRange fold_;
  std::uint64_t fold_from_ = 0;
  std::uint64_t folded_ = 0;   // windows
  std::vector<Piece> pieces_;  // by rank
};

}  // namespace rondo
