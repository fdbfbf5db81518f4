// The algorithms there are. Adding one is a file in this folder and a line in table.cc.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/transfers.h"

namespace rondo {

// A pure function of (world_size, root): writes the transfers of the whole world. REQUIRES: world_size >= 1,
// 0 <= root < world_size. The root means nothing to collectives without one.
using GenerateFunction = void (*)(int world_size, Rank root, Transfers& out);

struct AlgorithmEntry {
  Collective collective;
  Algorithm algorithm;
  std::uint32_t (*chunks)(int world_size);  // how many chunks its grid has, >= 1
  GenerateFunction generate;
};

std::span<const AlgorithmEntry> AllAlgorithms();
// What stands in that table, each once and in its order.
std::vector<Collective> DistinctCollectives();
std::vector<Algorithm> DistinctAlgorithms();
// Null where the algorithm does not serve that collective.
const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm);

}  // namespace rondo
