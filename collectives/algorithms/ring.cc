// Ring all-reduce: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009.
//
// Chunk c leaves rank c + 1, gains one contribution per hop, is complete at rank c, then travels on as a copy. P = 4:
//
//   hop    1          2          3         | 4          5          6
//   c0     1 -> 2     2 -> 3     3 -> 0 *  | 0 => 1     1 => 2     2 => 3      -> reduce, => copy, * complete
//   c1     2 -> 3     3 -> 0     0 -> 1 *  | 1 => 2     2 => 3     3 => 0
//   c2     3 -> 0     0 -> 1     1 -> 2 *  | 2 => 3     3 => 0     0 => 1
//   c3     0 -> 1     1 -> 2     2 -> 3 *  | 3 => 0     0 => 1     1 => 2
//
// Rounds: 2 (P - 1). Sent by each rank: 2 (P - 1) / P of the vector, the least there can be, evenly spread over ranks
// and over time; every rank talks to two others. Best for large vectors; for small ones its latency, linear in P, is
// the worst here. Order of operands: chunk c is folded along the ring from rank c + 1; where the ring wraps, rank 0
// goes to the left of what came from rank P - 1. So chunks differ in order, and most are not in the
// ranks' order.
#include "collectives/algorithms/generators.h"

namespace rondo {

void RingAllReduce(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  for (int hop = 1; hop < world; ++hop) {
    for (int c = 0; c < world; ++c) out.Reduce(Wrap(c + hop, world), Wrap(c + hop + 1, world), Chunk(c));
    out.EndRound();
  }
  for (int c = 0; c < world; ++c) out.Finish(c, Chunk(c));
  for (int hop = 0; hop < world - 1; ++hop) {
    for (int c = 0; c < world; ++c) out.Copy(Wrap(c + hop, world), Wrap(c + hop + 1, world), Chunk(c));
    out.EndRound();
  }
}

}  // namespace rondo
