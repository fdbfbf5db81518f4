// The generators behind table.h, one file each. What each costs and when to use it stands at the head of its file;
// every one serves any world size >= 1 and, where there is a root, any root.
#pragma once

#include "collectives/schedule/transfers.h"

namespace rondo {

void RingAllReduce(int world, Rank root, Transfers& out);               // ring.cc
void TreeAllReduce(int world, Rank root, Transfers& out);               // tree.cc
void TreeBroadcast(int world, Rank root, Transfers& out);               // tree.cc
void RecursiveHalvingAllReduce(int world, Rank root, Transfers& out);   // recursive_halving.cc
void RecursiveDoublingAllReduce(int world, Rank root, Transfers& out);  // recursive_doubling.cc
void ScatterAllGatherBroadcast(int world, Rank root, Transfers& out);   // scatter_all_gather.cc
void DisseminationBarrier(int world, Rank root, Transfers& out);        // dissemination.cc

}  // namespace rondo
