// Pairwise exchange: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 2005.
//
// There are P - 1 rounds. In round k every rank sends to one partner and receives from one partner. If P is a power of
// two, the partner of rank r is r XOR k in both directions. Otherwise rank r sends to r + k and receives from r - k,
// modulo P. A signal follows each block, and a rank sends its next block only after it has received the signal. So at
// any time one block enters each rank and one leaves it, for any number of ranks. For P = 4, with block ij sent from
// rank i to rank j:
//
//   round  1                       2                       3
//          0 =[01]=> 1 =[10]=> 0   0 =[02]=> 2 =[20]=> 0   0 =[03]=> 3 =[30]=> 0
//          2 =[23]=> 3 =[32]=> 2   1 =[13]=> 3 =[31]=> 1   1 =[12]=> 2 =[21]=> 1
//
// A rank sends (P - 1) / P of the vector, which is the minimum, because each block is sent straight to its owner. The
// algorithm is meant for large blocks, if sending all blocks at once (direct.cc) would overload receivers or switches.
// Reduce-scatter: rank r combines its own block with those of its partners in the order of the rounds, with the lower
// rank's operand on the left. So the order differs by block and is not the order of ranks.
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

Rank PartnerOf(Rank rank, int round, int world) {
  const bool power_of_two = (world & (world - 1)) == 0;
  return power_of_two ? rank ^ round : Wrap(rank + round, world);
}

void Pace(Rank from, Rank to, int round, int world, Transfers& out) {
  if (round + 1 < world) out.Signal(from, to);  // no signal in the final round, because no block follows it
}

}  // namespace

void PairwiseAllToAll(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  for (int round = 1; round < world; ++round) {
    for (Rank from = 0; from < world; ++from) {
      const Rank to = PartnerOf(from, round, world);
      out.Copy(from, to, Chunk(from * world + to));
      Pace(from, to, round, world, out);
    }
    out.EndRound();
  }
}

void PairwiseReduceScatter(const World& ranks, Transfers& out) {
  const int world = ranks.size;
  if (world == 1) return;
  for (int round = 1; round < world; ++round) {
    for (Rank from = 0; from < world; ++from) {
      const Rank to = PartnerOf(from, round, world);
      out.Reduce(from, to, Chunk(to));
      Pace(from, to, round, world, out);
    }
    out.EndRound();
  }
  for (Rank rank = 0; rank < world; ++rank) out.Finish(rank, Chunk(rank));
}

}  // namespace rondo
