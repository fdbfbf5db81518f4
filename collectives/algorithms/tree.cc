// Binomial trees. All-reduce: reduce to rank 0, then broadcast from it; broadcast: from any root. The classic; see
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.
//
// P = 4, all-reduce; the broadcast is its right half, with ranks counted from the root:
//
//   round  1          2           |  3          4
//          1 -> 0     2 -> 0 *    |  0 => 2     0 => 1          -> reduce, => copy, * complete
//          3 -> 2                 |             2 => 3
//
// Rounds: ceil(log2 P), twice that for all-reduce. Sent by a rank: at most ceil(log2 P) vectors (rank 0, the root), by
// leaves none or one. For broadcasts of small vectors; with byte progress inner nodes hand on what arrives, so that
// larger ones stream too, until the root's link is the limit. All-reduce by tree moves little in total, so it serves
// small vectors where ranks share cores. Order of operands: rank r's value is that of a contiguous block of ranks that
// begins at r; a block joins from the right, so the order is the ranks' order.
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

constexpr ChunkRange kVector{0, 1};

// The smallest power of two that is no smaller.
int PowerAtLeast(int value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

void TreeBroadcast(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int distance = PowerAtLeast(world) / 2; distance >= 1; distance /= 2) {
    for (int from = 0; from + distance < world; from += 2 * distance) {
      out.Copy(Wrap(from + ranks.root, world), Wrap(from + distance + ranks.root, world), kVector);
    }
    out.EndRound();
  }
}

void TreeAllReduce(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  for (int distance = 1; distance < world; distance *= 2) {
    for (int to = 0; to + distance < world; to += 2 * distance) out.Reduce(to + distance, to, kVector);
    out.EndRound();
  }
  out.Finish(0, kVector);
  TreeBroadcast({.size = world}, out);
}

}  // namespace rondo
