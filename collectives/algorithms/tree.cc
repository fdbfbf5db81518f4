// Binomial trees; see Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 2005.
//
// The drawing shows an all-reduce with P = 4: to rank 0 and back. Reduce is its left half, to any root. Broadcast is
// its right half, with ranks counted from the root. A barrier is both halves, with signals:
//
//   round  1          2           |  3          4
//          1 -> 0     2 -> 0 *    |  0 => 2     0 => 1          -> reduce, => copy, * complete
//          3 -> 2                 |             2 => 3
//
// Gather has the pattern of reduce; scatter is its reverse. Each transfer carries the blocks of all ranks of a subtree.
// For P = 4 and root 2:
//
//   round  1             2                                      round  1                2
//          1 =[1]=> 0    0 =[0,1]=> 2           scatter:               2 =[0,1]=> 0     0 =[1]=> 1
//          3 =[3]=> 2                                                                   2 =[3]=> 3
//
// Rounds: ceil(log2 P), twice that for all-reduce and barrier. In broadcast and all-reduce the root or rank 0 sends the
// most, ceil(log2 P) vectors; leaves send none or one. Reduce: a rank sends one vector. Scatter: the root sends (P - 1)
// / P of the vector. Gather: the rank that represents the half without the root sends the blocks of that half.
//
// Trees are meant for small vectors. Inner nodes forward bytes as they arrive, so larger vectors stream too; then the
// root's link is the limit. A tree all-reduce moves few bytes in total, so it suits small vectors if ranks share cores.
//
// Ranges of ranks [m 2^k, (m + 1) 2^k) join in pairs. The root represents its range; every other range is represented
// by its first rank. So the order of operands is the order of ranks and does not depend on the root: every root
// computes the same bits.
#include <algorithm>

#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// The smallest power of two >= value.
int PowerAtLeast(int value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

// Two neighbouring ranges of ranks become one; `child` represents the range without the root.
struct Joint {
  Rank parent;
  Rank child;
  ChunkRange child_block;  // the ranks that the child represents
};

// Visits every Joint of two ranges that have `size` ranks each, from rank 0 on. The last range may be shorter.
template <typename Visit>
void ForEachJoint(const World& ranks, int size, Visit visit) {
  const auto head = [&](int first) { return first <= ranks.root && ranks.root < first + size ? ranks.root : first; };
  for (int left = 0; left + size < ranks.size; left += 2 * size) {
    const int right = left + size;
    const Joint to_left{head(left), head(right), Chunks(right, std::min(size, ranks.size - right))};
    const Joint to_right{head(right), head(left), Chunks(left, size)};
    visit(head(right) == ranks.root ? to_right : to_left);
  }
}

template <typename Visit>
void LeavesToRoot(const World& ranks, Transfers& out, Visit visit) {
  for (int size = 1; size < ranks.size; size *= 2) {
    ForEachJoint(ranks, size, visit);
    out.EndRound();
  }
}

template <typename Visit>
void RootToLeaves(const World& ranks, Transfers& out, Visit visit) {
  for (int size = PowerAtLeast(ranks.size) / 2; size >= 1; size /= 2) {
    ForEachJoint(ranks, size, visit);
    out.EndRound();
  }
}

}  // namespace

void TreeBroadcast(const World& ranks, Transfers& out) {
  const World from_first{.size = ranks.size};
  const auto real = [&](int v) { return Wrap(v + ranks.root, ranks.size); };  // v is a rank, counted from the root
  RootToLeaves(from_first, out, [&](const Joint& joint) { out.Copy(real(joint.parent), real(joint.child), kVector); });
}

void TreeReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  LeavesToRoot(ranks, out, [&](const Joint& joint) { out.Reduce(joint.child, joint.parent, kVector); });
  out.Finish(ranks.root, kVector);
}

void TreeAllReduce(const World& ranks, Transfers& out) {
  const World to_first{.size = ranks.size};
  TreeReduce(to_first, out);
  TreeBroadcast(to_first, out);
}

void TreeGather(const World& ranks, Transfers& out) {
  LeavesToRoot(ranks, out, [&](const Joint& joint) { out.Copy(joint.child, joint.parent, joint.child_block); });
}

void TreeScatter(const World& ranks, Transfers& out) {
  RootToLeaves(ranks, out, [&](const Joint& joint) { out.Copy(joint.parent, joint.child, joint.child_block); });
}

void TreeBarrier(const World& ranks, Transfers& out) {
  const World by_first{.size = ranks.size};
  LeavesToRoot(by_first, out, [&](const Joint& joint) { out.Signal(joint.child, joint.parent); });
  RootToLeaves(by_first, out, [&](const Joint& joint) { out.Signal(joint.parent, joint.child); });
}

}  // namespace rondo
