// Recursive halving and doubling: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004. If the
// world size is not a power of two, ranks fold (folding.h).
//
// Halving: in round k (counted from 0) partners at distance 2^k split the chunks on which both still work. The lower
// rank keeps the lower half and combines it with the data that the higher rank sends. Doubling makes the same exchanges
// in reverse order, with copies. For P = 4 and chunks 0..3:
//
//   round  1                  2                    |  3               4
//          0 -[2,3]-> 1       0 -[1]-> 2           |  0 =[0]=> 2      0 =[0,1]=> 1
//          1 -[0,1]-> 0       2 -[0]-> 0   0 has 0 |  2 =[1]=> 0      1 =[2,3]=> 0     -> reduce, => copy
//          2 -[2,3]-> 3       1 -[3]-> 3   2 has 1 |  1 =[2]=> 3      2 =[0,1]=> 3
//          3 -[0,1]-> 2       3 -[2]-> 1   1 has 2 |  3 =[3]=> 1      3 =[2,3]=> 2
//                                          3 has 3 |
//
// Reduce: after the halving, in each pair only the partner on the side without the root sends. Example for root 0:
// 2 =[1]=> 0 and 3 =[3]=> 1, then 1 =[2,3]=> 0. Reduce-scatter: rank r must end with block r, so distances shrink. In
// round 1 partners at distance P / 2 keep the half that contains their own block.
//
// Rounds: 2 floor(log2 P). If ranks fold, there are 2 more; in a reduce only 1 more, because its root never folds.
// Reduce-scatter: floor(log2 P), and 2 more if ranks fold.
//
// A rank sends this part of the vector, if P' is the largest power of two up to P:
//   all-reduce      2 (P' - 1) / P'; if ranks fold, one whole vector more
//   reduce          (3 P' / 2 - 1) / P'
//   reduce-scatter  (P - 1) / P; ranks that fold send the whole vector
// If P is a power of two, this is as little as in a ring, but in logarithmically many rounds. So the algorithm is best
// for medium sizes. If P is not a power of two, the fold makes it slower.
//
// Order of operands: with growing distances, ranges of ranks stay contiguous. The order is then a balanced tree in the
// order of ranks, the same for every chunk and root. Reduce-scatter combines ranks P / 2 apart first. Its order is also
// a balanced tree, the same for every block, but not in the order of ranks.
#include <vector>

#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// Halves with growing distances. rank_of(i) is the rank of core member i. Afterwards core member i has the complete
// chunk that is returned at [i].
template <typename RankOf>
std::vector<int> Halve(int core, RankOf rank_of, Transfers& out) {
  std::vector<int> first(static_cast<std::size_t>(core), 0);  // the first chunk on which each core member still works
  for (int distance = 1, half = core / 2; distance < core; distance *= 2, half /= 2) {
    for (int i = 0; i < core; ++i) {
      const bool keeps_lower = (i & distance) == 0;
      const int given_away = keeps_lower ? first[i] + half : first[i];
      out.Reduce(rank_of(i), rank_of(i ^ distance), Chunks(given_away, half));
    }
    for (int i = 0; i < core; ++i) first[i] += (i & distance) == 0 ? 0 : half;
    out.EndRound();
  }
  for (int i = 0; i < core; ++i) out.Finish(rank_of(i), Chunk(first[i]));
  return first;
}

}  // namespace

void RecursiveHalvingAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const Folding folding(ranks.size);
  const int core = folding.core;
  const ChunkRange vector = Chunks(0, core);
  folding.FoldIn(vector, out);
  std::vector<int> first = Halve(
      core, [&](int i) { return folding.RankOfCore(i); }, out);
  for (int distance = core / 2, held = 1; distance >= 1; distance /= 2, held *= 2) {
    for (int i = 0; i < core; ++i) {
      out.Copy(folding.RankOfCore(i), folding.RankOfCore(i ^ distance), Chunks(first[i], held));
    }
    for (int i = 0; i < core; ++i) first[i] -= (i & distance) == 0 ? 0 : held;
    out.EndRound();
  }
  folding.FoldOut(vector, out);
}

void RecursiveHalvingReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const Folding folding(ranks.size);
  const int core = folding.core;
  // Of two neighbours that fold, the left one represents both, unless the right one is the root.
  const auto rank_of = [&](int i) {
    const Rank left = folding.RankOfCore(i);
    return i < folding.extra && ranks.root == left + 1 ? ranks.root : left;
  };
  int root = 0;  // the root's index in the core (folding.h: the power-of-two group of ranks)
  while (rank_of(root) != ranks.root) ++root;

  for (int i = 0; i < folding.extra; ++i) {
    out.Reduce(rank_of(i) == 2 * i ? 2 * i + 1 : 2 * i, rank_of(i), Chunks(0, core));
  }
  out.EndRound();
  std::vector<int> first = Halve(core, rank_of, out);
  for (int distance = core / 2, held = 1; distance >= 1; distance /= 2, held *= 2) {
    for (int i = 0; i < core; ++i) {
      // If a member's index differs from the root's in a bit above that of `distance`, the member has sent all its
      // chunks in an earlier round.
      const bool gave = ((i ^ root) & ~(2 * distance - 1)) != 0;
      const bool gives = ((i ^ root) & distance) != 0;
      if (!gave && gives) out.Copy(rank_of(i), rank_of(i ^ distance), Chunks(first[i], held));
    }
    for (int i = 0; i < core; ++i) first[i] -= (i & distance) == 0 ? 0 : held;
    out.EndRound();
  }
}

void RecursiveHalvingReduceScatter(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const Folding folding(ranks.size);
  const int core = folding.core;
  folding.FoldIn(Chunks(0, ranks.size), out);
  for (int distance = core / 2; distance >= 1; distance /= 2) {
    for (int i = 0; i < core; ++i) {
      const int given_away = (i ^ distance) & ~(distance - 1);  // where the partner's half begins
      out.Reduce(folding.RankOfCore(i), folding.RankOfCore(i ^ distance),
                 folding.RanksOfCore(given_away, given_away + distance));
    }
    out.EndRound();
  }
  for (int i = 0; i < core; ++i) out.Finish(folding.RankOfCore(i), folding.RanksOfCore(i, i + 1));
  for (int i = 0; i < folding.extra; ++i) out.Copy(2 * i, 2 * i + 1, Chunk(2 * i + 1));
  out.EndRound();
}

}  // namespace rondo
