// Direct: every rank sends to every other rank, or to or from the root, without intermediate ranks. It is called
// "linear" in Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", Cluster Computing 2007. For
// all-reduce it is the "one-shot" algorithm of GPU libraries.
//
// The drawing shows an all-reduce with P = 4, in one round. Each rank reduces the contributions in the order of ranks.
// It holds its own contribution back until those of lower ranks have arrived:
//
//   0 -> 1, 2, 3      at 0: ((0 + 1) + 2) + 3
//   1 -> 0, 2, 3      at 1: ((0 + 1) + 2) + 3
//   2 -> 0, 1, 3      at 2: ((0 + 1) + 2) + 3
//   3 -> 0, 1, 2      at 3: ((0 + 1) + 2) + 3
//
// Direct algorithms cost one latency. If a rank sends and receives one transfer at a time, they take P - 1 rounds, or 2
// P - 3 if all ranks reduce, because all ranks then need the vector of rank 0 first, that of rank 1 second, and so on.
// A rank sends:
//
//   all_reduce   P - 1 vectors: small ones only      broadcast   P - 1 vectors by the root      reduce   1 vector
//   all_gather, reduce_scatter, scatter (root), all_to_all   (P - 1) / P of the vector          gather   1 / P
//
// Except for all_reduce and broadcast these amounts are minimal. But every rank needs a lane to every other rank, or
// the root needs lanes to all ranks. Order of operands: the left fold at any rank, for any root. So direct algorithms
// are right for reproducible sums and for operations that do not commute. No rank handles blocks of other ranks, so
// these algorithms also support a count per block.
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

// Every rank first sends to the next rank, so that no two ranks send to the same rank first.
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
