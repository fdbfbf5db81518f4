// Large reductions as a relay: a window (a range of the vector) passes from rank to rank, and each rank folds (reduces)
// its operands into it. After the highest rank's fold the window holds the result, and every rank copies it out. Many
// windows are under way at once.
//
//              window 0    window 1    window 2
//   rank 0     copies in   copies in   copies in
//   rank 1                 x0 op x1    ...
//   rank 2                             (x0 op x1) op x2     then all copy window 0 out
//
// For any number of ranks, every rank handles every byte of the vector twice: it folds the byte, and copies it out.
// (With n ranks, the shares of slots.h also copy (n-1)/n of the vector in.) If the host is oversubscribed, a rank
// processes all windows that it can before it yields its core.
//
// The operation has an opening round, in which all ranks check that they are in the same operation. Then the relay uses
// the payloads of all slots. A closing round without payload follows, so that no rank writes a slot of the next round
// before all ranks have ended the relay.
//
//   rank r folds window w       when rank r - 1 has folded it
//   rank 0 folds window w       when all ranks have copied out the window that used the same slot before
//   a rank copies a window out  when the highest rank has folded it
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/engine/engine.h"
#include "collectives/intranode/move_streams.h"
#include "collectives/intranode/operation.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class RelayStrategy {
 public:
  // All arguments must outlive this object.
  RelayStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves,
                WindowCounts& counts);

  bool Serves() const;
  // Begins the relay. REQUIRES: the opening round has ended.
  void Start();
  Progress Poll();

  bool HasNews() const;
  bool WaitsFor(Rank peer) const;
  std::uint64_t BytesDone() const;

 private:
  // The maximum number of windows under way: the number of slots.
  std::uint64_t max_windows() const { return 2 * static_cast<std::uint64_t>(segment_.world_size()); }
  ByteRange WindowOf(std::uint64_t number) const;
  std::byte* SlotOf(std::uint64_t number) const;
  // This rank may now fold (reduce) the first MayFold() windows of the operation, and copy out the first MayCopy()
  // windows.
  std::uint64_t MayFold() const;
  std::uint64_t MayCopy() const;
  bool Copies(Rank rank) const;
  void FoldWindow(std::uint64_t number);
  // FoldOn continues to reduce a window; CopyOn continues to copy a window out. True: that window is done.
  bool FoldOn();
  bool CopyOn(std::uint64_t to_copy);
  Rank FirstNotToHaveFolded(std::uint64_t number) const;

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  MoveStreams& moves_;
  WindowCounts& counts_;
  const std::uint64_t max_window_bytes_;

  std::uint64_t window_bytes_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t folded_ = 0;
  std::uint64_t copied_ = 0;
  bool is_folding_ = false;  // window `folded_` is being reduced
  bool is_copying_ = false;  // window `copied_` is being copied out
};

}  // namespace rondo
