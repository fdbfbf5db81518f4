// The algorithms there are. Adding one is a file in this folder and a line in table.cc.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/transfers.h"

namespace rondo {

// A pure function: writes the transfers of the whole world. REQUIRES: world.size >= 1, 0 <= root < size; `hosts` is
// empty or names a host for every rank.
using GenerateFunction = void (*)(const World& world, Transfers& out);

// What else may be asked of an algorithm, so that a communicator knows whom it can use.
struct AlgorithmTraits {
  // Of reductions. Both are proved, not believed (prove.h).
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
std::uint32_t ChunksOf(const AlgorithmEntry& entry, const World& world);
World WorldOf(const ScheduleKey& key);  // its `hosts` live as long as the key's

std::span<const AlgorithmEntry> AllAlgorithms();
// What stands in that table, each once and in its order.
std::vector<Collective> DistinctCollectives();
std::vector<Algorithm> DistinctAlgorithms();
// Null where the algorithm does not serve that collective.
const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm);

}  // namespace rondo
