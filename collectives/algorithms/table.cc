#include "collectives/algorithms/table.h"

#include <algorithm>
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

// What one member of the entries is, each value once.
template <typename T>
std::vector<T> Distinct(T AlgorithmEntry::*member) {
  std::vector<T> values;
  for (const AlgorithmEntry& entry : kTable)
    if (std::find(values.begin(), values.end(), entry.*member) == values.end()) values.push_back(entry.*member);
  return values;
}

}  // namespace

std::span<const AlgorithmEntry> AllAlgorithms() { return kTable; }
std::vector<Collective> DistinctCollectives() { return Distinct(&AlgorithmEntry::collective); }
std::vector<Algorithm> DistinctAlgorithms() { return Distinct(&AlgorithmEntry::algorithm); }

const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm) {
  for (const AlgorithmEntry& entry : kTable) {
    if (entry.collective == collective && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

}  // namespace rondo
