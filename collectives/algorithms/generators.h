// The functions that table.h lists, one file each. The head of each file explains what an algorithm costs and when to
// use it. Every function works for any world size >= 1 and for any root.
#pragma once

#include <cstdint>

#include "collectives/schedule/transfers.h"

namespace rondo {

// The whole vector, for algorithms that do not cut it into chunks.
inline constexpr ChunkRange kVector{0, 1};

// bruck.cc
void BruckAllGather(const World& ranks, Transfers& out);
void BruckAllToAll(const World& ranks, Transfers& out);
// chain.cc
void ChainAllReduce(const World& ranks, Transfers& out);
void ChainBroadcast(const World& ranks, Transfers& out);
void ChainReduce(const World& ranks, Transfers& out);
// direct.cc
void DirectAllReduce(const World& ranks, Transfers& out);
void DirectBroadcast(const World& ranks, Transfers& out);
void DirectReduce(const World& ranks, Transfers& out);
void DirectAllGather(const World& ranks, Transfers& out);
void DirectReduceScatter(const World& ranks, Transfers& out);
void DirectGather(const World& ranks, Transfers& out);
void DirectScatter(const World& ranks, Transfers& out);
void DirectAllToAll(const World& ranks, Transfers& out);
// dissemination.cc
void DisseminationBarrier(const World& ranks, Transfers& out);
// double_tree.cc
void DoubleTreeAllReduce(const World& ranks, Transfers& out);
void DoubleTreeBroadcast(const World& ranks, Transfers& out);
// hierarchical.cc
void HierarchicalAllReduce(const World& ranks, Transfers& out);
std::uint32_t HierarchicalChunks(const World& ranks);
// knomial.cc
void Knomial4AllReduce(const World& ranks, Transfers& out);
void Knomial8AllReduce(const World& ranks, Transfers& out);
void Knomial4AllGather(const World& ranks, Transfers& out);
void Knomial8AllGather(const World& ranks, Transfers& out);
void Knomial4Broadcast(const World& ranks, Transfers& out);
void Knomial8Broadcast(const World& ranks, Transfers& out);
void Knomial4Reduce(const World& ranks, Transfers& out);
void Knomial8Reduce(const World& ranks, Transfers& out);
// pairwise.cc
void PairwiseReduceScatter(const World& ranks, Transfers& out);
void PairwiseAllToAll(const World& ranks, Transfers& out);
// recursive_doubling.cc
void RecursiveDoublingAllReduce(const World& ranks, Transfers& out);
void RecursiveDoublingAllGather(const World& ranks, Transfers& out);
// recursive_halving.cc
void RecursiveHalvingAllReduce(const World& ranks, Transfers& out);
void RecursiveHalvingReduce(const World& ranks, Transfers& out);
void RecursiveHalvingReduceScatter(const World& ranks, Transfers& out);
// ring.cc
void RingAllReduce(const World& ranks, Transfers& out);
void RingReduce(const World& ranks, Transfers& out);
void RingAllGather(const World& ranks, Transfers& out);
void RingReduceScatter(const World& ranks, Transfers& out);
// scatter_all_gather.cc
void ScatterAllGatherBroadcast(const World& ranks, Transfers& out);
// tree.cc
void TreeAllReduce(const World& ranks, Transfers& out);
void TreeBroadcast(const World& ranks, Transfers& out);
void TreeReduce(const World& ranks, Transfers& out);
void TreeGather(const World& ranks, Transfers& out);
void TreeScatter(const World& ranks, Transfers& out);
void TreeBarrier(const World& ranks, Transfers& out);
// two_shot.cc
void TwoShotAllReduce(const World& ranks, Transfers& out);

}  // namespace rondo
