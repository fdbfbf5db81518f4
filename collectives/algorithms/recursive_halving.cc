// Recursive halving and doubling all-reduce: Rabenseifner, "Optimization of collective reduction operations", ICCS
// 2004; other world sizes than powers of two fold (folding.h).
//
// Halving: in round k partners at distance 2^k split what they both still work on; the lower one keeps the lower half
// and combines it with what the other sends. Doubling goes the same way back with copies. P = 4, chunks 0..3:
//
//   round  1                  2                    |  3               4
//          0 -[2,3]-> 1       0 -[1]-> 2           |  0 =[0]=> 2      0 =[0,1]=> 1
//          1 -[0,1]-> 0       2 -[0]-> 0   0 has 0 |  2 =[1]=> 0      1 =[2,3]=> 0     -> reduce, => copy
//          2 -[2,3]-> 3       1 -[3]-> 3   2 has 1 |  1 =[2]=> 3      2 =[0,1]=> 3
//          3 -[0,1]-> 2       3 -[2]-> 1   1 has 2 |  3 =[3]=> 1      3 =[2,3]=> 2
//                                          3 has 3 |
//
// Rounds: 2 log2 P; 2 floor(log2 P) + 2 where ranks fold. Sent by a rank: 2 (P' - 1) / P' of the vector with P' the
// power of two below P, one whole vector more where ranks fold. As little as the ring in a power-of-two world, in
// logarithmically many rounds: best for middle sizes; other worlds pay for the fold. Distances grow, so blocks stay
// contiguous and the order of operands is a balanced tree in the ranks' order, the same for every chunk.
#include <vector>

#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {

void RecursiveHalvingAllReduce(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  const Folding folding(world);
  const int core = folding.core;
  const ChunkRange vector = Chunks(0, core);

  folding.FoldIn(vector, out);
  std::vector<int> first(static_cast<std::size_t>(core), 0);  // the first chunk each core member still works on
  for (int distance = 1, half = core / 2; distance < core; distance *= 2, half /= 2) {
    for (int i = 0; i < core; ++i) {
      const bool keeps_lower = (i & distance) == 0;
      const int given_away = keeps_lower ? first[i] + half : first[i];
      out.Reduce(folding.RankOfCore(i), folding.RankOfCore(i ^ distance), Chunks(given_away, half));
    }
    for (int i = 0; i < core; ++i) first[i] += (i & distance) == 0 ? 0 : half;
    out.EndRound();
  }
  for (int i = 0; i < core; ++i) out.Finish(folding.RankOfCore(i), Chunk(first[i]));

  for (int distance = core / 2, held = 1; distance >= 1; distance /= 2, held *= 2) {
    for (int i = 0; i < core; ++i) {
      out.Copy(folding.RankOfCore(i), folding.RankOfCore(i ^ distance), Chunks(first[i], held));
    }
    for (int i = 0; i < core; ++i) first[i] -= (i & distance) == 0 ? 0 : held;
    out.EndRound();
  }
  folding.FoldOut(vector, out);
}

}  // namespace rondo
