// Large reductions as a relay: a window goes from rank to rank, and each folds its operands into it. The last rank's
// fold is the result, which every rank copies out. Many windows are on their way at once.
//
//              window 0    window 1    window 2
//   rank 0     copies in   copies in   copies in
//   rank 1                 x0 op x1    ...
//   rank 2                             (x0 op x1) op x2     then all copy window 0 out
//
// Every rank touches every byte twice, whatever the number of ranks: S bytes folded, S bytes out. (Shares, of slots.h,
// take (n-1)/n S in besides.) If ranks outnumber cores, each works off all windows it can before it gives its core
// away.
//
// The operation has an opening round, in which all ranks see that they are in the same operation; then the relay, over
// the payloads of all slots; then a closing round without payload, so that no rank writes a slot (of the next round)
// before all have ended.
//
//   rank r folds window w       when rank r - 1 has; rank 0 when all have copied out the window that was there before
//   a rank copies a window out  when the last rank has folded it
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
  // All arguments outlive it.
  RelayStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves,
                WindowCounts& counts);

  bool Serves() const;
  // The opening round has ended.
  void Start();
  Progress Poll();

  bool HasNews() const;
  bool WaitsFor(Rank peer) const;
  std::uint64_t BytesDone() const;

 private:
  // Windows under way at most: as many as there are slots.
  std::uint64_t max_windows() const { return 2 * static_cast<std::uint64_t>(segment_.world_size()); }
  ByteRange WindowOf(std::uint64_t number) const;
  std::byte* SlotOf(std::uint64_t number) const;
  // How many windows this rank may have folded, and copied out, as far as it can see now.
  std::uint64_t MayFold() const;
  std::uint64_t MayCopy() const;
  bool Copies(Rank rank) const;
  void FoldWindow(std::uint64_t number);
  // Each goes on with its next window. True: it is done.
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
  bool is_folding_ = false;  // the next window
  bool is_copying_ = false;
};

}  // namespace rondo
