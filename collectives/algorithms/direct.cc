// Direct: everyone to everyone, or to and from the root, with no rank in between. As old as message passing; "linear"
// in Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", Cluster Computing 2007; for
// all-reduce the "one-shot" of GPU libraries.
//
// P = 4, all-reduce, all in one round. Each rank folds what comes in the ranks' order; its own contribution steps aside
// until those of lower ranks are there:
//
//   0 -> 1, 2, 3      at 0: ((0 + 1) + 2) + 3
//   1 -> 0, 2, 3      at 1: ((0 + 1) + 2) + 3
//   2 -> 0, 1, 3      at 2: ((0 + 1) + 2) + 3
//   3 -> 0, 1, 2      at 3: ((0 + 1) + 2) + 3
//
// One latency. Where a rank sends and receives one transfer at a time: P - 1 rounds, and 2 P - 3 where all fold, since
// then everyone waits for rank 0's first, rank 1's second, and so on. Sent by a rank:
//
//   all_reduce   P - 1 vectors: small ones only      broadcast   P - 1 vectors by the root      reduce   1 vector
//   all_gather, reduce_scatter, scatter (root), all_to_all   (P - 1) / P of the vector          gather   1 / P
//
// For all but all_reduce and broadcast that is the least there can be, but every rank needs a lane to every other, or
// the root to all. Order of operands: the left fold at any rank, for any root: for reproducible and non-commutative
// operations. No rank handles a block that is not its own, so these serve a count per block.
#include <numeric>
#include <vector>

#include "collectives/algorithms/fold.h"
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

std::vector<Rank> Everyone(const World& ranks) {
  std::vector<Rank> everyone(static_cast<std::size_t>(ranks.size));
  std::iota(everyone.begin(), everyone.end(), Rank{0});
  return everyone;
}

}  // namespace

void DirectAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const std::vector<Rank> everyone = Everyone(ranks);
  for (std::size_t to = 0; to < everyone.size(); ++to) FoldInOrder(everyone, to, kVector, out);
  out.EndRound();
  for (Rank rank = 0; rank < ranks.size; ++rank) out.Finish(rank, kVector);
}

void DirectReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  FoldInOrder(Everyone(ranks), static_cast<std::size_t>(ranks.root), kVector, out);
  out.EndRound();
  out.Finish(ranks.root, kVector);
}

void DirectReduceScatter(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const std::vector<Rank> everyone = Everyone(ranks);
  for (Rank to = 0; to < ranks.size; ++to) FoldInOrder(everyone, static_cast<std::size_t>(to), Chunk(to), out);
  out.EndRound();
  for (Rank rank = 0; rank < ranks.size; ++rank) out.Finish(rank, Chunk(rank));
}

void DirectBroadcast(const World& ranks, Transfers& out) {
  for (int step = 1; step < ranks.size; ++step) out.Copy(ranks.root, Wrap(ranks.root + step, ranks.size), kVector);
  out.EndRound();
}

void DirectGather(const World& ranks, Transfers& out) {
  for (int step = 1; step < ranks.size; ++step) {
    const Rank from = Wrap(ranks.root + step, ranks.size);
    out.Copy(from, ranks.root, Chunk(from));
  }
  out.EndRound();
}

void DirectScatter(const World& ranks, Transfers& out) {
  for (int step = 1; step < ranks.size; ++step) {
    const Rank to = Wrap(ranks.root + step, ranks.size);
    out.Copy(ranks.root, to, Chunk(to));
  }
  out.EndRound();
}

// Everyone begins with the next rank, so that nobody is everybody's first.
void DirectAllGather(const World& ranks, Transfers& out) {
  for (int step = 1; step < ranks.size; ++step) {
    for (Rank from = 0; from < ranks.size; ++from) out.Copy(from, Wrap(from + step, ranks.size), Chunk(from));
  }
  out.EndRound();
}

void DirectAllToAll(const World& ranks, Transfers& out) {
  for (int step = 1; step < ranks.size; ++step) {
    for (Rank from = 0; from < ranks.size; ++from) {
      const Rank to = Wrap(from + step, ranks.size);
      out.Copy(from, to, Chunk(from * ranks.size + to));
    }
  }
  out.EndRound();
}

}  // namespace rondo
