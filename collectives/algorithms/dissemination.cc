// Dissemination barrier: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 1988.
//
// In round k (counted from 0) rank r signals rank r + 2^k, modulo P. A signal implies all signals that its sender has
// received. For P = 4:
//
//   round  1          2
//          0 -> 1     0 -> 2
//          1 -> 2     1 -> 3
//          2 -> 3     2 -> 0
//          3 -> 0     3 -> 1
//
// Rounds: ceil(log2 P), the minimum for every P. Sent by a rank: ceil(log2 P) signals, no bytes.
#include "collectives/algorithms/generators.h"

namespace rondo {

void DisseminationBarrier(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int distance = 1; distance < world; distance *= 2) {
    for (int rank = 0; rank < world; ++rank) out.Signal(rank, Wrap(rank + distance, world));
    out.EndRound();
  }
}

}  // namespace rondo
