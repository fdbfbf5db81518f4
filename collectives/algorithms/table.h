// The list of all algorithms. To add one, add a file to this folder and a line to table.cc.
#pragma once

#include <span>
#include <vector>

#include "collectives/schedule/algorithm.h"

namespace rondo {

std::span<const AlgorithmEntry> AllAlgorithms();
// The collectives and the algorithms in the list of all algorithms, each once and in the order of the list.
std::vector<Collective> DistinctCollectives();
std::vector<Algorithm> DistinctAlgorithms();
// Returns null if the algorithm does not implement the collective.
const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm);

}  // namespace rondo
