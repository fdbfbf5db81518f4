// Plans what a rank reads from its peers' memory in one operation, and tracks how much it has read. A rank folds
// (reduces in rank order) a range of all ranks' operands, and copies a piece of some ranks' memory.
//
//              rank 0                      rank 1
//   inputs     [ a0 | b0 ]                 [ a1 | b1 ]
//   fold       [ a0 + a1 |     ]           [     | b0 + b1 ]      each its share, straight from all inputs
//   copy       [ a0 + a1 | b0 + b1 ]       ...                    each the others' shares, straight from their outputs
//
// The drawing shows an all_reduce by shares. With S bytes and n ranks, each rank folds S/n and copies (n - 1)/n S,
// which is the minimum. Alternatively every rank folds the whole vector, which saves a wait. In a reduce_scatter all
// ranks only fold; in a reduce only the root does; in broadcast, gather, all_gather, scatter and all_to_all ranks only
// copy.
//
// All work is cut into windows. Each rank folds all of its share before it copies the others' shares. Otherwise ranks
// would take cache lines from each other while these are written. (Without this order, vectors of 4 and 16 MiB took a
// sixth longer between two ranks.)
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
    std::uint64_t from = 0;   // offset in the peer's memory
    std::uint64_t to = 0;     // offset in this rank's output
    std::uint64_t bytes = 0;  // 0: there is no piece
    std::uint64_t taken = 0;  // windows copied so far
  };

  // All arguments must outlive this object.
  PeerReads(const IntranodeSegment& segment, const IntranodeOperation& operation, WindowCounts& counts);

  // The bytes of a rank's input that its peers may read.
  std::uint64_t InputBytesOf(Rank rank) const;
  const std::byte* own_input() const;
  // Whether peers may also read this rank's output.
  bool shares_results() const { return operation_.collective() == Collective::kAllReduce; }

  // `by_shares`: in an all_reduce, each rank folds its own share and copies the others' shares.
  void Start(bool by_shares, std::uint64_t window_bytes);
  bool by_shares() const { return by_shares_; }
  std::uint64_t window_bytes() const { return window_bytes_; }

  // The fold: its range in this rank's output, and the offset of its operands in the inputs.
  const ByteRange& fold() const { return fold_; }
  std::uint64_t fold_from() const { return fold_from_; }
  bool has_folded() const { return folded_ == windows_; }
  ByteRange NextFoldWindow() const { return WindowOf(fold_, folded_); }
  void OnFoldedWindow() { OnFolded(folded_ + 1); }
  void OnFoldedAll() { OnFolded(windows_); }

  // How many windows of the peer's piece this rank may copy now, at most `max_windows`.
  std::uint64_t MayTake(Rank peer, std::uint64_t max_windows) const;
  const Piece& piece(Rank peer) const { return pieces_[static_cast<std::size_t>(peer)]; }
  // The next windows of a piece, as a range of the peer's memory.
  ByteRange NextOfPiece(Rank peer, std::uint64_t windows) const;
  void OnTaken(Rank peer, std::uint64_t windows) { pieces_[static_cast<std::size_t>(peer)].taken += windows; }

  // Whether everything is folded and copied. Then the caller must call End once.
  bool IsDone() const;
  void End();

  bool WaitsFor(Rank peer) const;
  bool HasNews() const;
  // Approximate progress, in bytes of the vector or block.
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
  std::uint64_t folded_ = 0;   // windows folded so far
  std::vector<Piece> pieces_;  // indexed by rank
};

}  // namespace rondo
