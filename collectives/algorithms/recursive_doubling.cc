// Recursive doubling: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 2005. If the world size is not a power of two, ranks fold (folding.h).
//
// In round k (counted from 0) partners at distance 2^k exchange their data. All-reduce: they exchange whole vectors,
// and both combine. All-gather: they exchange the blocks of the 2^k ranks around them. For P = 4:
//
//   round  1          2                     round  1              2
//          0 <-> 1    0 <-> 2                      0 <[0|1]> 1    0 <[0,1|2,3]> 2
//          2 <-> 3    1 <-> 3                      2 <[2|3]> 3    1 <[0,1|2,3]> 3
//
// Rounds: log2 P, the minimum; floor(log2 P) + 2 if ranks fold. The algorithm is best for small vectors. In an
// all-reduce a rank sends log2 P vectors, and one more if ranks fold. In an all-gather it sends (P - 1) / P of the
// vector, which is the minimum. If ranks fold, a rank sends the blocks of all ranks that it represents, and the whole
// vector to the rank that folded into it.
//
// Order of operands: the lower rank's operand is the left one on both sides of an exchange. So all ranks compute the
// same expression: a balanced tree over contiguous ranges of ranks, in the order of ranks.
#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {

void RecursiveDoublingAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const Folding folding(ranks.size);
  folding.FoldIn(kVector, out);
  for (int distance = 1; distance < folding.core; distance *= 2) {
    for (int i = 0; i < folding.core; ++i) {
      out.Reduce(folding.RankOfCore(i), folding.RankOfCore(i ^ distance), kVector);
    }
    out.EndRound();
  }
  for (int i = 0; i < folding.core; ++i) out.Finish(folding.RankOfCore(i), kVector);
  folding.FoldOut(kVector, out);
}

void RecursiveDoublingAllGather(const World& ranks, Transfers& out) {
  const Folding folding(ranks.size);
  for (int i = 0; i < folding.extra; ++i) out.Copy(2 * i + 1, 2 * i, Chunk(2 * i + 1));
  out.EndRound();
  for (int distance = 1; distance < folding.core; distance *= 2) {
    for (int i = 0; i < folding.core; ++i) {
      const int group = i & ~(distance - 1);  // member i has the blocks of members group to group + distance - 1
      out.Copy(folding.RankOfCore(i), folding.RankOfCore(i ^ distance), folding.RanksOfCore(group, group + distance));
    }
    out.EndRound();
  }
  folding.FoldOut(Chunks(0, ranks.size), out);
}

}  // namespace rondo
