// Broadcast by scatter and all-gather: van de Geijn; Barnett et al., "Building a high-performance collective
// communication library", SC 1994. A hop is left out if it would bring a rank chunks that the rank already has (Zhou,
// Marjanovic, Niethammer and Gracia, "A bandwidth-saving optimization for MPI broadcast collective operation", ICPPW
// 2015).
//
// Ranks are counted from the root. A binomial tree scatters the chunks, and each inner node keeps those of its subtree.
// Then every chunk travels around the ring. For P = 4:
//
//   round  1               2             |  3             4             5
//          0 =[2,3]=> 2    0 =[1]=> 1    |  0 =[0]=> 1    0 =[3]=> 1    0 =[2]=> 1
//                          2 =[3]=> 3    |  1 =[1]=> 2    1 =[0]=> 2
//                                        |  2 =[2]=> 3    2 =[1]=> 3    2 =[0]=> 3      3 => 0 is never needed
//
// Rounds: ceil(log2 P) + P - 1. The root sends the most, at most 2 (P - 1) / P of the vector, while the root of a tree
// sends ceil(log2 P) vectors. So the algorithm is meant for large vectors. Nothing is reduced, so there is no order of
// operands.
#include <algorithm>
#include <vector>

#include "collectives/algorithms/generators.h"

namespace rondo {

void ScatterAllGatherBroadcast(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  const auto real = [&](int v) { return Wrap(v + ranks.root, world); };  // v is a rank, counted from the root
  std::vector<int> held_end(static_cast<std::size_t>(world));  // after the scatter, v holds chunks [v, held_end[v])
  held_end[0] = world;

  int distance = 1;
  while (distance < world) distance *= 2;
  for (distance /= 2; distance >= 1; distance /= 2) {
    for (int from = 0; from + distance < world; from += 2 * distance) {
      const int to = from + distance;
      held_end[to] = std::min(to + distance, world);
      out.Copy(real(from), real(to), Chunks(to, held_end[to] - to));
    }
    out.EndRound();
  }

  for (int hop = 0; hop < world - 1; ++hop) {
    // The rank before the root does not send to the root, because the root has everything.
    for (int from = 0; from < world - 1; ++from) {
      const int to = from + 1;
      const int chunk = Wrap(from - hop, world);
      const bool held = to <= chunk && chunk < held_end[to];
      if (!held) out.Copy(real(from), real(to), Chunk(chunk));
    }
    out.EndRound();
  }
}

}  // namespace rondo
