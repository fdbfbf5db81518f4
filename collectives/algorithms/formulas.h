// What the papers say about each algorithm, as closed formulas of the world size P. Written from the papers, not from
// the generators: tests and `rondo verify` hold every proved schedule against them, so that no algorithm silently runs
// another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule/step.h"

namespace rondo {

struct Fraction {
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;  // > 0; not reduced
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

struct AlgorithmCost {
  std::uint32_t rounds = 0;         // one-port model: a rank sends one transfer and receives one at a time
  Fraction sent;                    // by the rank that sends most, as a fraction of the vector
  std::string_view rounds_formula;  // in words of P and, where ranks fold, P' = 2^floor(log2 P)
  std::string_view sent_formula;
};

// Nullopt where the algorithm does not serve the collective. REQUIRES: world_size >= 1.
std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, int world_size);

// The order in which an all-reduce algorithm combines the ranks' contributions to a chunk, as Proof::order prints it:
// "((0+1)+2)". REQUIRES: the algorithm serves all_reduce; the chunk is one of its grid.
std::string DocumentedOrder(Algorithm algorithm, int world_size, std::uint32_t chunk);

// Through how many combinations a contribution goes at most in that order: what bounds the error of a floating sum
// (docs/SCHEDULES.md). REQUIRES: the algorithm serves all_reduce.
std::uint32_t RoundingDepth(Algorithm algorithm, int world_size);

}  // namespace rondo
