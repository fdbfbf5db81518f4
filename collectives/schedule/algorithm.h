// Describes an algorithm to the code that builds and runs schedules. collectives/algorithms/table.h lists all
// algorithms.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/transfers.h"

namespace rondo {

// A pure function that writes the transfers of all ranks. REQUIRES: world.size >= 1, 0 <= root < size; `hosts` is empty
// or has one entry per rank.
using GenerateFunction = void (*)(const World& world, Transfers& out);

// Properties by which a communicator decides whether it can use an algorithm.
struct AlgorithmTraits {
  // rank_order and left_fold are properties of reductions. Both are proved (collectives/algorithms/prove.h).
  bool rank_order = false;  // the operands of every chunk are in the order of ranks, so `op` need not commute
  bool left_fold = false;   // every chunk is ((0 op 1) op 2) op ..., so any two left folds give the same bits
  // A rank's transfers include blocks whose lengths the rank might not know. So the algorithm cannot run the variants
  // with a count per block (all_gather_v, ...).
  bool needs_equal_counts = false;
  // A transfer may contain several adjacent blocks. So the algorithm cannot run if each block is cut into shares
  // (collectives/engine/railed_engine.h). Always false for an algorithm whose vector is one block.
  bool spans_blocks = false;
  // The vector is one block, and each rank sends and receives at the same rate from beginning to end. So slices make
  // the algorithm faster (collectives/engine/slices.h).
  bool in_slices = false;
};

struct AlgorithmEntry {
  Collective collective;
  Algorithm algorithm;
  std::uint32_t (*chunks_per_block)(const World& world);  // number of chunks of each block (layout.h), >= 1
  GenerateFunction generate;
  AlgorithmTraits traits = {};
};

// The number of chunks of all blocks together.
inline std::uint32_t ChunksOf(const AlgorithmEntry& entry, const World& world) {
  return entry.chunks_per_block(world) * BlocksOf(entry.collective, world.size);
}

// The world of a schedule's key. Its `hosts` point into the key's list, which must outlive the world.
inline World WorldOf(const ScheduleKey& key) {
  World world{.size = key.world_size, .root = key.root};
  if (key.hosts != nullptr) world.hosts = *key.hosts;
  return world;
}

}  // namespace rondo
