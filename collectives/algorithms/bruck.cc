// Bruck's algorithms: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", IEEE TPDS 1997. The fewest rounds there can be, for every P.
//
// All-gather: before round k (from 0) rank r has the 2^k blocks from r on, counted round the world, and sends them 2^k
// places back; the last round sends what is still missing. P = 5:
//
//   round  1              2                   3
//          1 =[1]=> 0     2 =[2,3]=> 0        4 =[4]=> 0
//          2 =[2]=> 1     3 =[3,4]=> 1        0 =[0]=> 1
//          3 =[3]=> 2     4 =[4,0]=> 2        1 =[1]=> 2
//          4 =[4]=> 3     0 =[0,1]=> 3        2 =[2]=> 3
//          0 =[0]=> 4     1 =[1,2]=> 4        3 =[3]=> 4
//
// All-to-all: a block that has d places to go travels in round k by 2^k places if bit k of d is set, through ranks that
// keep it for the next round. P = 4, block ij from rank i to rank j, what rank 0 sends and receives; 02 has two places
// to go, 32 had three and came from 3 in round 1:
//
//   round  1                        2
//          0 =[01, 03]=> 1          0 =[02, 32]=> 2
//          3 =[30, 32]=> 0          2 =[20, 10]=> 0
//
// Rounds: ceil(log2 P). Sent by a rank: all-gather (P - 1) / P of the vector, the least there can be; all-to-all, of
// its own vector, the set bits of 1 .. P - 1 over P: about (log2 P) / 2. For small blocks. A list of blocks that do not
// stand side by side is one transfer each behind one another, so all-to-all saves latencies and lanes, not headers.
// Nothing is computed. Ranks handle blocks of others, so counts must be equal.
#include <algorithm>

#include "collectives/algorithms/generators.h"

namespace rondo {

void BruckAllGather(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int held = 1; held < world; held *= 2) {
    const int given = std::min(held, world - held);
    for (Rank from = 0; from < world; ++from) {
      const Rank to = Wrap(from - held, world);
      const int before_wrap = std::min(given, world - from);
      out.Copy(from, to, Chunks(from, before_wrap));
      if (before_wrap < given) out.Copy(from, to, Chunks(0, given - before_wrap));
    }
    out.EndRound();
  }
}

void BruckAllToAll(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int bit = 1; bit < world; bit *= 2) {
    for (Rank from = 0; from < world; ++from) {
      const Rank to = Wrap(from + bit, world);
      for (int places = bit; places < world; ++places) {
        if ((places & bit) == 0) continue;
        const Rank origin = Wrap(from - (places & (bit - 1)), world);  // of a block that is here by now
        out.Copy(from, to, Chunk(origin * world + Wrap(origin + places, world)));
      }
    }
    out.EndRound();
  }
}

}  // namespace rondo
