// How algorithms that want a power of two of ranks serve any world: `extra` neighbours fold into one. Of the first
// 2 * extra ranks the odd ones hand their vector to the even one on their left, sit out, and get the result in the end.
// The others form a core of a power of two; the order of core indices is the order of ranks, and each core member
// stands for a contiguous block of them.
//
//   P = 6:  ranks  0 <- 1   2 <- 3   4   5
//           core   0        1        2   3
#pragma once

#include "collectives/schedule/transfers.h"

namespace rondo {

struct Folding {
  int core = 1;   // the largest power of two <= world
  int extra = 0;  // world - core

  explicit Folding(int world) {
    while (core * 2 <= world) core *= 2;
    extra = world - core;
  }

  Rank RankOfCore(int index) const { return index < extra ? 2 * index : index + extra; }
  // The ranks that core members [begin, end) stand for, as a range of chunks with one chunk per rank. REQUIRES: begin
  // <= end <= core.
  ChunkRange RanksOfCore(int begin, int end) const {
    const int first = RankOfCore(begin);
    return Chunks(first, RankOfCore(end) - first);  // RankOfCore(core) is the world's size
  }

  // One round each; none where nothing folds.
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
