#include "collectives/schedule/layout.h"

#include "base/check.h"

namespace rondo {
namespace {

BlockSet Only(Rank rank) { return {static_cast<std::uint32_t>(rank), 1, 1}; }

}  // namespace

bool HasRoot(Collective collective) {
  switch (collective) {
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter: return true;
    default: return false;
  }
}

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool HasInPlace(Collective collective) {
  return collective != Collective::kAllToAll && collective != Collective::kBarrier;
}

std::uint32_t BlocksOf(Collective collective, int world_size) {
  const auto p = static_cast<std::uint32_t>(world_size);
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter: return p;
    case Collective::kAllToAll: return p * p;
    default: return 1;
  }
}

BlockSet InputBlocks(const ScheduleKey& key, Rank rank) {
  const auto p = static_cast<std::uint32_t>(key.world_size);
  const BlockSet all{0, 1, BlocksOf(key.collective, key.world_size)};
  switch (key.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter: return all;
    case Collective::kBroadcast:
    case Collective::kScatter: return rank == key.root ? all : BlockSet{};
    case Collective::kAllGather:
    case Collective::kGather: return Only(rank);
    case Collective::kAllToAll: return {static_cast<std::uint32_t>(rank) * p, 1, p};
    case Collective::kBarrier: return {};
  }
  return {};
}

BlockSet OutputBlocks(const ScheduleKey& key, Rank rank) {
  const auto p = static_cast<std::uint32_t>(key.world_size);
  const BlockSet all{0, 1, BlocksOf(key.collective, key.world_size)};
  switch (key.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kAllGather: return all;
    case Collective::kReduce:
    case Collective::kGather: return rank == key.root ? all : BlockSet{};
    case Collective::kReduceScatter:
    case Collective::kScatter: return Only(rank);
    case Collective::kAllToAll: return {static_cast<std::uint32_t>(rank), p, p};
    case Collective::kBarrier: return {};
  }
  return {};
}

bool InPlaceAt(const ScheduleKey& key, Rank rank) {
  if (!key.in_place || !HasInPlace(key.collective)) return false;
  const bool only_root = HasRoot(key.collective) && key.collective != Collective::kBroadcast;
  return !only_root || rank == key.root;
}

BlockSet Holds(const ScheduleKey& key, Rank rank, BufferId buffer) {
  RONDO_CHECK(buffer != BufferId::kScratch, "scratch holds what a rank's schedule says");
  const BlockSet input = InputBlocks(key, rank);
  const BlockSet output = OutputBlocks(key, rank);
  if (!InPlaceAt(key, rank)) return buffer == BufferId::kInput ? input : output;
  if (buffer == BufferId::kInput) return {};
  return output.count >= input.count ? output : input;
}

}  // namespace rondo
