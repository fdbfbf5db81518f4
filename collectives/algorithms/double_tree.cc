// Double binary trees: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009; the trees are those of NCCL.
//
// A binary tree leaves half of the ranks idle as leaves. Two trees over the same ranks, in which the inner nodes of one
// are the leaves of the other, carry half of the vector each, so everybody works. Tree 0 numbers its places 0 .. P - 1
// by rank: place 0 is the root with one child, and a place's lowest set bit b says its height; it stands between the
// places of its left subtree, down to place - b, and of its right one. Tree 1 is the same with places mirrored (P even)
// or shifted by one (P odd). P = 6, all-reduce; then the same way back with copies:
//
//     tree 0, first half:  0              tree 1, second half:  5
//                           \                                  /
//                            4                                1
//                           / \                              / \                (up: reduce, down: copy)
//                          2   5                            0   3
//                         / \                                  / \                                           .
//                        1   3                                2   4
//
// For broadcast both trees number the other ranks 1 .. P - 1 from the root on, who is place 0 in both.
//
// Latencies: at most 2 ceil(log2 P) transfers in a row, for broadcast half as many. Sent by a rank: all-reduce two
// vectors at most, broadcast one, by any number of ranks: against log2 P of the binomial tree, and in logarithmically
// many steps against the ring. For middle and large vectors, with byte progress. Order of operands: left subtree, own,
// right subtree; tree 1 has it mirrored or with rank P - 1 last: the ranks' order in both halves, differently
// bracketed.
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// One of the two trees: which rank sits at which place.
struct Tree {
  int size = 1;  // places
  int half = 0;  // of the vector: chunk 0 or 1
  enum Seating { kInOrder, kMirrored, kShifted, kFromRoot, kFromRootMirrored, kFromRootShifted } seating = kInOrder;
  Rank root = 0;  // of the kFromRoot ones

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

// The child of the root.
int TopPlace(int size) {
  int bit = 1;
  while (bit * 2 < size) bit *= 2;
  return bit;
}

// Calls visit(parent, left, right) for every place of the height of `bit` >= 2; `right` is 0 if there is none.
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
