// Rings. All-reduce: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009. Reduce-scatter is the left half of the drawing below. All-gather is the right half, with block r starting at
// rank r. Reduce is the left half, after which each rank sends its complete chunk to the root.
//
// Chunk c starts at rank c + 1, gains one contribution per hop, is complete at rank c, and then continues as a copy.
// For P = 4:
//
//   hop    1          2          3         | 4          5          6
//   c0     1 -> 2     2 -> 3     3 -> 0 *  | 0 => 1     1 => 2     2 => 3      -> reduce, => copy, * complete
//   c1     2 -> 3     3 -> 0     0 -> 1 *  | 1 => 2     2 => 3     3 => 0
//   c2     3 -> 0     0 -> 1     1 -> 2 *  | 2 => 3     3 => 0     0 => 1
//   c3     0 -> 1     1 -> 2     2 -> 3 *  | 3 => 0     0 => 1     1 => 2
//
// Rounds: P - 1 for each half. Sent by each rank: (P - 1) / P of the vector for each half, the minimum, evenly spread
// over ranks and time. Every rank exchanges data with two others (and, in a reduce, with the root). Rings are best for
// large vectors. For small vectors they have the highest latency of all algorithms here, because it is linear in P.
//
// Order of operands: chunk c is folded along the ring from rank c + 1. Where the ring wraps, rank 0's operand is on the
// left of the value from rank P - 1. So the order differs by chunk, and most chunks are not in the order of ranks. All
// ranks handle all blocks. If every rank knows every block's count, counts may differ.
#include "collectives/algorithms/generators.h"

namespace rondo {

void RingReduceScatter(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  for (int hop = 1; hop < world; ++hop) {
    for (int c = 0; c < world; ++c) out.Reduce(Wrap(c + hop, world), Wrap(c + hop + 1, world), Chunk(c));
    out.EndRound();
  }
  for (int c = 0; c < world; ++c) out.Finish(c, Chunk(c));
}

void RingAllGather(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int hop = 0; hop < world - 1; ++hop) {
    for (int c = 0; c < world; ++c) out.Copy(Wrap(c + hop, world), Wrap(c + hop + 1, world), Chunk(c));
    out.EndRound();
  }
}

void RingAllReduce(const World& ranks, Transfers& out) {
  RingReduceScatter(ranks, out);
  RingAllGather(ranks, out);
}

void RingReduce(const World& ranks, Transfers& out) {
  RingReduceScatter(ranks, out);
  for (int c = 0; c < ranks.size; ++c) {
    if (c != ranks.root) out.Copy(c, ranks.root, Chunk(c));
  }
  out.EndRound();
}

}  // namespace rondo
