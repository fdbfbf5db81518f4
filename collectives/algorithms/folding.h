// Some algorithms need 2^k ranks. To run them in any world, this class folds `extra` pairs of neighbours
// into one rank each. Of the first 2 * extra ranks, each odd rank sends its vector to the rank below it, waits, and
// receives the result at the end. The ranks that do not wait form the core; their number is a power of two. The order
// of core indices is the order of ranks, and each core member represents a contiguous block of ranks.
//
//   P = 6:  ranks  0 <- 1   2 <- 3   4   5
//           core   0        1        2   3
#pragma once

#include "collectives/schedule/transfers.h"

namespace rondo {

struct Folding {
  int core = 1;   // number of ranks in the core: the largest power of two <= world
  int extra = 0;  // number of ranks outside the core: world - core

  explicit Folding(int world) {
    while (core * 2 <= world) core *= 2;
    extra = world - core;
  }

  Rank RankOfCore(int index) const { return index < extra ? 2 * index : index + extra; }
  // The ranks that the core members [begin, end) represent, as a range of chunks with one chunk per rank. REQUIRES:
  // begin <= end <= core.
  ChunkRange RanksOfCore(int begin, int end) const {
    const int first = RankOfCore(begin);
    return Chunks(first, RankOfCore(end) - first);  // also right if end is `core`: RankOfCore(core) is the world size
  }

  // FoldIn and FoldOut each write one round, or none if no ranks fold.
  void FoldIn(ChunkRange vector, Transfers& out) const {
    if (extra == 0) return;
    for (int i = 0; i < extra; ++i) out.Reduce(2 * i + 1, 2 * i, vector);
    out.EndRound();
  }
  void FoldOut(ChunkRange vector, Transfers& out) const {
    if (extra == 0) return;
    for (int i = 0; i < extra; ++i) out.Copy(2 * i, 2 * i + 1, vector);
    out.EndRound();
  }
};

}  // namespace rondo
