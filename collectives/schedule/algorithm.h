// An algorithm, as the code that builds and runs schedules sees it. collectives/algorithms/table.h lists all of them.
#pragma once

#include "collectives/schedule/layout.h"
#include "collectives/schedule/transfers.h"

namespace rondo {

// A pure function: writes the transfers of the whole world. REQUIRES: world.size >= 1, 0 <= root < size; `hosts` is
// empty or names a host for every rank.
using GenerateFunction = void (*)(const World& world, Transfers& out);

// Further properties of an algorithm, by which a communicator decides whether it can use it.
struct AlgorithmTraits {
  // Properties of reductions. Both are proved (collectives/algorithms/prove.h).
  bool rank_order = false;  // the operands of every chunk stand in the ranks' order: `op` need not commute
  bool left_fold = false;   // every chunk is ((0 op 1) op 2) op ...: the same bits as any other left fold
  // Its transfers span blocks of which a rank may not know the lengths: it does not serve the variants with a count per
  // block (all_gather_v, ...).
  bool needs_equal_counts = false;
  // A transfer may have several blocks, which lie side by side: it does not serve where a block is cut into shares
  // (collectives/engine/railed_engine.h). Of algorithms on one block never.
  bool spans_blocks = false;
  // Each rank sends and receives alike from beginning to end, and the vector is one block: worth running in slices
  // (collectives/engine/slices.h).
  bool in_slices = false;
};

struct AlgorithmEntry {
  Collective collective;
  Algorithm algorithm;
  std::uint32_t (*chunks_per_block)(const World& world);  // into how many chunks it cuts each block (layout.h), >= 1
  GenerateFunction generate;
  AlgorithmTraits traits = {};
};

// The chunks of the whole virtual vector: chunks per block times blocks.
inline std::uint32_t ChunksOf(const AlgorithmEntry& entry, const World& world) {
  return entry.chunks_per_block(world) * BlocksOf(entry.collective, world.size);
}

// Its `hosts` live as long as the key's.
inline World WorldOf(const ScheduleKey& key) {
  World world{.size = key.world_size, .root = key.root};
  if (key.hosts != nullptr) world.hosts = *key.hosts;
  return world;
}

}  // namespace rondo
