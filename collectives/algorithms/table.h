// The algorithms there are. Adding one is a file in this folder and a line in table.cc.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/algorithm.h"

namespace rondo {

std::span<const AlgorithmEntry> AllAlgorithms();
// What stands in that table, each once and in its order.
std::vector<Collective> DistinctCollectives();
std::vector<Algorithm> DistinctAlgorithms();
// Null where the algorithm does not serve that collective.
const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm);

}  // namespace rondo
