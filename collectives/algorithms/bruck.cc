// Bruck's algorithms: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", IEEE TPDS 1997. They need the fewest possible rounds for every P.
//
// All-gather: before round k (counted from 0) rank r has 2^k blocks: block r and those that follow it, modulo P. It
// sends them to rank r - 2^k, modulo P. The final round sends only the missing blocks. For P = 5:
//
//   round  1              2                   3
//          1 =[1]=> 0     2 =[2,3]=> 0        4 =[4]=> 0
//          2 =[2]=> 1     3 =[3,4]=> 1        0 =[0]=> 1
//          3 =[3]=> 2     4 =[4,0]=> 2        1 =[1]=> 2
//          4 =[4]=> 3     0 =[0,1]=> 3        2 =[2]=> 3
//          0 =[0]=> 4     1 =[1,2]=> 4        3 =[3]=> 4
//
// All-to-all: the distance d of a block is its receiver minus its sender, modulo P. In round k the block moves 2^k
// ranks forward if bit k of d is set. Between the rounds the ranks on its way keep it. The drawing shows the transfers
// of rank 0 for P = 4; block ij is sent from rank i to rank j. Block 02 has distance 2. Block 32 has distance 3 and
// came from rank 3 in round 1:
//
//   round  1                        2
//          0 =[01, 03]=> 1          0 =[02, 32]=> 2
//          3 =[30, 32]=> 0          2 =[20, 10]=> 0
//
// Rounds: ceil(log2 P). In an all-gather a rank sends (P - 1) / P of the vector, which is the minimum. In an all-to-all
// it sends about (log2 P) / 2 times its own vector (exactly: the number of set bits in 1 .. P - 1, divided by P). Both
// algorithms are meant for small blocks. Each block that is not adjacent to another needs its own transfer. So
// all-to-all saves latencies and lanes, but not headers. Nothing is reduced. Ranks handle blocks of other ranks, so
// counts must be equal.
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
        const Rank origin = Wrap(from - (places & (bit - 1)), world);  // the rank that contributed this block
        out.Copy(from, to, Chunk(origin * world + Wrap(origin + places, world)));
      }
    }
    out.EndRound();
  }
}

}  // namespace rondo
