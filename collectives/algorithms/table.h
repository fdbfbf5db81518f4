// All algorithms. To add one, add a file to this folder and a line to table.cc.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/algorithm.h"

namespace rondo {

std::span<const AlgorithmEntry> AllAlgorithms();
// The collectives and algorithms in that table, each once and in the table's order.
std::vector<Collective> DistinctCollectives();
std::vector<Algorithm> DistinctAlgorithms();
// Null if the algorithm does not implement the collective.
const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm);

}  // namespace rondo
