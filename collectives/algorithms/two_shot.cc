// All-reduce in two shots. Every rank owns a chunk. Each rank sends each chunk to its owner, which reduces the
// contributions in the order of ranks. Then the owners send the results to all ranks. It is "all pairs" in Cowan et
// al., "MSCCLang: Microsoft collective communication language", ASPLOS 2023, and the two-shot all-reduce of GPU
// libraries.
//
// For P = 4, chunk c is owned by rank c:
//
//   shot   1                                              |  2
//   c0     1 -> 0   2 -> 0   3 -> 0   ((0 + 1) + 2) + 3   |  0 => 1   0 => 2   0 => 3
//   c1     0 -> 1   2 -> 1   3 -> 1   ((0 + 1) + 2) + 3   |  1 => 0   1 => 2   1 => 3
//   c2     0 -> 2   1 -> 2   3 -> 2   ((0 + 1) + 2) + 3   |  2 => 0   2 => 1   2 => 3
//   c3     0 -> 3   1 -> 3   2 -> 3   ((0 + 1) + 2) + 3   |  3 => 0   3 => 1   3 => 2
//
// The algorithm costs two latencies, or 3 P - 4 rounds if a rank sends and receives one transfer at a time. A rank
// sends 2 (P - 1) / P of the vector, as little as in a ring. Order of operands: the left fold, so sums are reproducible
// with only two latencies. Every rank needs a lane to every other rank.
#include "collectives/algorithms/generators.h"

namespace rondo {

void TwoShotAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  DirectReduceScatter(ranks, out);
  DirectAllGather(ranks, out);
}

}  // namespace rondo
