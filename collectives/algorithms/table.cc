#include "collectives/algorithms/table.h"

#include <array>

#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

std::uint32_t OneChunk(const World& /*world*/) { return 1; }
std::uint32_t ChunkPerRank(const World& world) { return static_cast<std::uint32_t>(world.size); }
std::uint32_t ChunkPerCoreRank(const World& world) { return static_cast<std::uint32_t>(Folding(world.size).core); }

constexpr std::array kTable{
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kRing, ChunkPerRank, RingAllReduce},
    AlgorithmEntry{Collective::kAllReduce, Algorithm::kTree, OneChunk, TreeAllReduce, {.rank_order = true}},
    AlgorithmEntry{Collective::kAllReduce,
                   Algorithm::kRecursiveHalving,
                   ChunkPerCoreRank,
                   RecursiveHalvingAllReduce,
                   {.rank_order = true}},
    AlgorithmEntry{Collective::kAllReduce,
                   Algorithm::kRecursiveDoubling,
                   OneChunk,
                   RecursiveDoublingAllReduce,
                   {.rank_order = true}},
    AlgorithmEntry{Collective::kBroadcast, Algorithm::kTree, OneChunk, TreeBroadcast},
    AlgorithmEntry{Collective::kBroadcast, Algorithm::kScatterAllGather, ChunkPerRank, ScatterAllGatherBroadcast},
    AlgorithmEntry{Collective::kBarrier, Algorithm::kDissemination, OneChunk, DisseminationBarrier},
};

}  // namespace

std::uint32_t ChunksOf(const AlgorithmEntry& entry, const World& world) {
  return entry.chunks_per_block(world) * BlocksOf(entry.collective, world.size);
}

World WorldOf(const ScheduleKey& key) {
  World world{.size = key.world_size, .root = key.root};
  if (key.hosts != nullptr) world.hosts = *key.hosts;
  return world;
}

std::span<const AlgorithmEntry> AllAlgorithms() { return kTable; }

const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm) {
  for (const AlgorithmEntry& entry : kTable) {
    if (entry.collective == collective && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

}  // namespace rondo
