// K-nomial trees: binomial trees with another radix. Every inner node has k - 1 children per level instead of one, so
// the tree is log2 k times flatter. See Wilkins et al., "Generalized collective algorithms for the exascale era", IEEE
// CLUSTER 2023.
//
// P = 16, radix 4, broadcast from 0:            P = 4, all-reduce by radix 4:
//
//   level  1           2                           level  1                   |  2
//          0 => 4      0 => 1, 2, 3                       1 -> 0              |  0 => 1
//          0 => 8      4 => 5, 6, 7                       2 -> 0              |  0 => 2        -> reduce, => copy
//          0 => 12     8 => 9, 10, 11                     3 -> 0 *            |  0 => 3        * complete
//                      12 => 13, 14, 15
//
// The tree has ceil(log_k P) levels and costs as many latencies. If a rank sends and receives one transfer at a time,
// it takes d + (k - 1) (n - 1) rounds; here n is the number of digits of P - 1 in base k, and d is the first digit. The
// root sends one vector per round. All-reduce takes twice the rounds, and so does all-gather, which gathers the blocks
// at rank 0 and then broadcasts the vector. All-gather thus sends more bytes than algorithms in which all ranks
// exchange blocks. But it makes only 2 (P - 1) transfers in total, which is the minimum. If ranks share CPU cores, the
// number of transfers determines the time. K-nomial trees are meant for small vectors on hosts with many cores and on
// fast switches, if latency matters more than the load on the root's links.
//
// Order of operands: ranges of k^level ranks are combined in the order of ranks. The root's range is first combined
// with the ranges on its left, the nearest first, then with those on its right.
#include <algorithm>

#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// The rank that represents ranks [first, first + size).
Rank HeadOf(int first, int size, Rank root) { return first <= root && root < first + size ? root : first; }

void Broadcast(const World& ranks, int radix, ChunkRange chunks, Transfers& out) {
  const int world = ranks.size;
  int size = 1;
  while (size * radix < world) size *= radix;
  for (; size >= 1; size /= radix) {
    for (int from = 0; from < world; from += radix * size) {
      for (int to = from + size; to < from + radix * size && to < world; to += size) {
        out.Copy(Wrap(from + ranks.root, world), Wrap(to + ranks.root, world), chunks);
      }
    }
    out.EndRound();
  }
}

void Reduce(const World& ranks, int radix, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  for (int size = 1; size < world; size *= radix) {
    for (int first = 0; first < world; first += radix * size) {
      const Rank to = HeadOf(first, radix * size, ranks.root);
      const int own = to - (to - first) % size;  // the first rank of the range that `to` represents
      for (int block = own - size; block >= first; block -= size) out.Reduce(block, to, kVector);
      for (int block = own + size; block < first + radix * size && block < world; block += size) {
        out.Reduce(block, to, kVector);
      }
    }
    out.EndRound();
  }
  out.Finish(ranks.root, kVector);
}

void AllReduce(const World& ranks, int radix, Transfers& out) {
  const World from_first{.size = ranks.size};
  Reduce(from_first, radix, out);
  Broadcast(from_first, radix, kVector, out);
}

void AllGather(const World& ranks, int radix, Transfers& out) {
  const int world = ranks.size;
  for (int size = 1; size < world; size *= radix) {
    for (int first = 0; first < world; first += radix * size)
      for (int block = first + size; block < first + radix * size && block < world; block += size)
        out.Copy(block, first, Chunks(block, std::min(size, world - block)));
    out.EndRound();
  }
  Broadcast(World{.size = world}, radix, Chunks(0, world), out);
}

}  // namespace

void Knomial4AllReduce(const World& ranks, Transfers& out) { AllReduce(ranks, 4, out); }
void Knomial8AllReduce(const World& ranks, Transfers& out) { AllReduce(ranks, 8, out); }
void Knomial4AllGather(const World& ranks, Transfers& out) { AllGather(ranks, 4, out); }
void Knomial8AllGather(const World& ranks, Transfers& out) { AllGather(ranks, 8, out); }
void Knomial4Broadcast(const World& ranks, Transfers& out) { Broadcast(ranks, 4, kVector, out); }
void Knomial8Broadcast(const World& ranks, Transfers& out) { Broadcast(ranks, 8, kVector, out); }
void Knomial4Reduce(const World& ranks, Transfers& out) { Reduce(ranks, 4, out); }
void Knomial8Reduce(const World& ranks, Transfers& out) { Reduce(ranks, 8, out); }

}  // namespace rondo
