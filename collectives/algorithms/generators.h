// The generators behind table.h, one file each. What each costs and when to use it stands at the head of its file;
// every one serves any world size >= 1 and, where there is a root, any root.
#pragma once

#include "collectives/schedule/transfers.h"

namespace rondo {

void RingAllReduce(const World& world, Transfers& out);               // ring.cc
void TreeAllReduce(const World& world, Transfers& out);               // tree.cc
void TreeBroadcast(const World& world, Transfers& out);               // tree.cc
void RecursiveHalvingAllReduce(const World& world, Transfers& out);   // recursive_halving.cc
void RecursiveDoublingAllReduce(const World& world, Transfers& out);  // recursive_doubling.cc
void ScatterAllGatherBroadcast(const World& world, Transfers& out);   // scatter_all_gather.cc
void DisseminationBarrier(const World& world, Transfers& out);        // dissemination.cc

}  // namespace rondo
