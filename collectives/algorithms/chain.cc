// Streaming chains: every rank forwards bytes as they arrive, so all ranks work on a large vector at the same time.
// This is "chain" in Pjesivac-Grbovic, Angskun, Bosilca, Fagg, Gabriel and Dongarra, "Performance analysis of MPI
// collective operations", Cluster Computing 2007, but with bytes instead of segments as the unit that is forwarded.
//
// The drawing shows an all-reduce with P = 4. Reduce is its left half, plus one transfer if the root is not the highest
// rank. Broadcast is a chain of copies that starts at the root:
//
//   round  1          2          3          |  4          5          6
//          0 -> 1     1 -> 2     2 -> 3 *   |  3 => 2     2 => 1     1 => 0        -> reduce, => copy, * complete
//
// Rounds: P - 1 for broadcast and for a reduce to the highest rank, P for a reduce to another rank, 2 (P - 1) for
// all-reduce. A rank sends one vector; the inner ranks of an all-reduce send two. Order of operands: the left fold ((0
// + 1) + 2) + 3 for every root. The chain is meant for reproducible sums of large vectors. In an all-reduce every link
// carries each byte once in each direction. The first byte takes the latency of all hops.
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// Folds along the chain. Afterwards rank world - 1 has the result.
void FoldAlong(int world, Transfers& out) {
  for (Rank rank = 0; rank + 1 < world; ++rank) {
    out.Reduce(rank, rank + 1, kVector);
    out.EndRound();
  }
  out.Finish(world - 1, kVector);
}

}  // namespace

void ChainAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  FoldAlong(ranks.size, out);
  for (Rank rank = ranks.size - 1; rank > 0; --rank) {
    out.Copy(rank, rank - 1, kVector);
    out.EndRound();
  }
}

void ChainReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  FoldAlong(ranks.size, out);
  if (const Rank last = ranks.size - 1; last != ranks.root) {
    out.Copy(last, ranks.root, kVector);
    out.EndRound();
  }
}

void ChainBroadcast(const World& ranks, Transfers& out) {
  for (int hop = 0; hop + 1 < ranks.size; ++hop) {
    out.Copy(Wrap(ranks.root + hop, ranks.size), Wrap(ranks.root + hop + 1, ranks.size), kVector);
    out.EndRound();
  }
}

}  // namespace rondo
