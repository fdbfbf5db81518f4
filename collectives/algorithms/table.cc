#include "collectives/algorithms/table.h"

#include <array>

#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

std::uint32_t OneChunk(int /*world*/) { return 1; }
std::uint32_t ChunkPerRank(int world) { return static_cast<std::uint32_t>(world); }
std::uint32_t ChunkPerCoreRank(int world) { return static_cast<std::uint32_t>(Folding(world).core); }

constexpr std::array kTable{
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kRing, ChunkPerRank, RingAllReduce},
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kTree, OneChunk, TreeAllReduce},
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kRecursiveHalving, ChunkPerCoreRank, RecursiveHalvingAllReduce},
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kRecursiveDoubling, OneChunk, RecursiveDoublingAllReduce},
    AlgorithmEntry{Collective::kBroadcast, Algorithm::kTree, OneChunk, TreeBroadcast},
    AlgorithmEntry{Collective::kBroadcast, Algorithm::kScatterAllGather, ChunkPerRank, ScatterAllGatherBroadcast},
    AlgorithmEntry{Collective::kBarrier, Algorithm::kDissemination, OneChunk, DisseminationBarrier},
};

}  // namespace

std::span<const AlgorithmEntry> AllAlgorithms() { return kTable; }

const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm) {
  for (const AlgorithmEntry& entry : kTable) {
    if (entry.collective == collective && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

}  // namespace rondo
