// Recursive doubling all-reduce: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
// in MPICH", IJHPCA 2005; other world sizes than powers of two fold (folding.h).
//
// In round k partners at distance 2^k exchange whole vectors and both combine. P = 4:
//
//   round  1          2
//          0 <-> 1    0 <-> 2
//          2 <-> 3    1 <-> 3
//
// Rounds: log2 P; floor(log2 P) + 2 where ranks fold. Sent by a rank: log2 P vectors, one more where ranks fold. The
// fewest rounds there can be: best for small vectors. Order of operands: the lower rank's is the left one on both sides
// of an exchange, so all ranks compute the same expression, a balanced tree over contiguous blocks in the ranks' order.
#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {

void RecursiveDoublingAllReduce(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  constexpr ChunkRange kVector{0, 1};
  const Folding folding(world);
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

}  // namespace rondo
