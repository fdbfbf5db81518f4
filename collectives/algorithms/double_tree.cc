// Double binary trees: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009; the trees are those of NCCL.
//
// In a binary tree half of the ranks are leaves, which have little to do. So there are two trees over the same ranks,
// and the inner nodes of each tree are leaves of the other tree. Each tree carries half of the vector, so all ranks
// work.
//
// The positions in a tree are called places and numbered 0 .. P - 1. In tree 0, rank r has place r. Place 0 is the root
// and has one child. The height of another place is its lowest set bit b: its left subtree has the b - 1 places before
// it, its right subtree the b - 1 places after it, as far as they exist. Tree 1 is the same tree, with places mirrored
// (P even) or shifted by one (P odd). The drawing shows the reductions of an all-reduce with P = 6. Afterwards copies
// go down the same trees:
//
//     tree 0, first half:  0              tree 1, second half:  5
//                           \                                  /
//                            4                                1
//                           / \                              / \                (up: reduce, down: copy)
//                          2   5                            0   3
//                         / \                                  / \                                           .
//                        1   3                                2   4
//
// For broadcast the root has place 0 in both trees, and the ranks that follow it, modulo P, have the places 1 .. P - 1.
// For broadcast, tree 1 is mirrored for odd P and shifted for even P.
//
// An all-reduce costs at most 2 ceil(log2 P) latencies, and a broadcast half as many; a ring costs a number that is
// linear in P. A rank sends at most two vectors for all-reduce and one for broadcast, for any P. (The root of a
// binomial tree sends log2 P vectors.) Double trees are meant for medium and large vectors, because ranks forward bytes
// as they arrive.
//
// Order of operands: left subtree, the node's own, right subtree. In tree 1 the order is mirrored, or the operand
// of rank P - 1 is the last one. So both halves are in the order of ranks, with different brackets.
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// One of the two trees; says which rank has which place.
struct Tree {
  int size = 1;  // the number of places
  int half = 0;  // which half of the vector: chunk 0 or 1
  enum Seating { kInOrder, kMirrored, kShifted, kFromRoot, kFromRootMirrored, kFromRootShifted } seating = kInOrder;
  Rank root = 0;  // for the kFromRoot... seatings

  Rank At(int place) const {
    const int others = size - 1;
    switch (seating) {
      case kInOrder: return place;
      case kMirrored: return others - place;
      case kShifted: return Wrap(place - 1, size);
      case kFromRoot: return Wrap(root + place, size);
      case kFromRootMirrored: return Wrap(root + (place == 0 ? 0 : size - place), size);
      case kFromRootShifted: return Wrap(root + (place == 0 ? 0 : place % others + 1), size);
    }
    return place;
  }
};

// The place of the root's child.
int TopPlace(int size) {
  int bit = 1;
  while (bit * 2 < size) bit *= 2;
  return bit;
}

// Calls visit(parent, left, right) for every place whose height is `bit` >= 2; `right` is 0 if there is no right child.
template <typename Visit>
void ForEachParent(int size, int bit, Visit visit) {
  for (int parent = bit; parent < size; parent += 2 * bit) {
    int step = bit / 2;
    while (step > 0 && parent + step >= size) step /= 2;
    visit(parent, parent - bit / 2, step > 0 ? parent + step : 0);
  }
}

void ReduceAlong(const Tree (&trees)[2], Transfers& out) {
  const int size = trees[0].size;
  for (int bit = 2; bit < size; bit *= 2) {
    for (const Tree& tree : trees) {
      ForEachParent(size, bit, [&](int parent, int left, int right) {
        out.Reduce(tree.At(left), tree.At(parent), Chunk(tree.half));
        if (right > 0) out.Reduce(tree.At(right), tree.At(parent), Chunk(tree.half));
      });
    }
    out.EndRound();
  }
  for (const Tree& tree : trees) out.Reduce(tree.At(TopPlace(size)), tree.At(0), Chunk(tree.half));
  out.EndRound();
  for (const Tree& tree : trees) out.Finish(tree.At(0), Chunk(tree.half));
}

void BroadcastAlong(const Tree (&trees)[2], Transfers& out) {
  const int size = trees[0].size;
  for (const Tree& tree : trees) out.Copy(tree.At(0), tree.At(TopPlace(size)), Chunk(tree.half));
  out.EndRound();
  for (int bit = TopPlace(size); bit >= 2; bit /= 2) {
    for (const Tree& tree : trees) {
      ForEachParent(size, bit, [&](int parent, int left, int right) {
        out.Copy(tree.At(parent), tree.At(left), Chunk(tree.half));
        if (right > 0) out.Copy(tree.At(parent), tree.At(right), Chunk(tree.half));
      });
    }
    out.EndRound();
  }
}

}  // namespace

void DoubleTreeAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const Tree trees[2] = {
      {.size = ranks.size, .half = 0},
      {.size = ranks.size, .half = 1, .seating = ranks.size % 2 == 0 ? Tree::kMirrored : Tree::kShifted}};
  ReduceAlong(trees, out);
  BroadcastAlong(trees, out);
}

void DoubleTreeBroadcast(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const auto other = ranks.size % 2 == 1 ? Tree::kFromRootMirrored : Tree::kFromRootShifted;
  const Tree trees[2] = {{.size = ranks.size, .half = 0, .seating = Tree::kFromRoot, .root = ranks.root},
                         {.size = ranks.size, .half = 1, .seating = other, .root = ranks.root}};
  BroadcastAlong(trees, out);
}

}  // namespace rondo
