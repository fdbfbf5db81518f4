// Bruck's algorithms: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", IEEE TPDS 1997. They need the fewest possible rounds for every P.
//
// All-gather: before round k (from 0) rank r has the 2^k blocks from r on, counted around the world. It sends them to
// the rank 2^k places back; the last round sends only the missing blocks. P = 5:
//
//   round  1              2                   3
//          1 =[1]=> 0     2 =[2,3]=> 0        4 =[4]=> 0
//          2 =[2]=> 1     3 =[3,4]=> 1        0 =[0]=> 1
//          3 =[3]=> 2     4 =[4,0]=> 2        1 =[1]=> 2
//          4 =[4]=> 3     0 =[0,1]=> 3        2 =[2]=> 3
//          0 =[0]=> 4     1 =[1,2]=> 4        3 =[3]=> 4
//
// All-to-all: a block with a distance of d places moves by 2^k places in round k if bit k of d is set. The ranks on its
// way keep it between the rounds. P = 4, block ij from rank i to rank j, the transfers of rank 0. Block 02 has a
// distance of two places. Block 32 has a distance of three and came from rank 3 in round 1:
//
//   round  1                        2
//          0 =[01, 03]=> 1          0 =[02, 32]=> 2
//          3 =[30, 32]=> 0          2 =[20, 10]=> 0
//
// Rounds: ceil(log2 P). Sent by a rank: all-gather (P - 1) / P of the vector, the minimum. All-to-all, relative to its
// own vector: the set bits of 1 .. P - 1, divided by P: about (log2 P) / 2. For small blocks. Blocks that are not
// adjacent are sent as one transfer each, so all-to-all saves latencies and lanes, not headers. Nothing is computed.
// Ranks handle blocks of other ranks, so counts must be equal.
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
        const Rank origin = Wrap(from - (places & (bit - 1)), world);  // of a block that has arrived here by now
        out.Copy(from, to, Chunk(origin * world + Wrap(origin + places, world)));
      }
    }
    out.EndRound();
  }
}

}  // namespace rondo
