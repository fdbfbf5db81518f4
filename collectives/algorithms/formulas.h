// What the papers say about each algorithm, as closed formulas of the world size P. Written from the papers, not from
// the generators: tests and `rondo verify` hold every proved schedule against them, so that no algorithm silently runs
// another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule/step.h"
#include "collectives/schedule/transfers.h"

namespace rondo {

// What the formulas' words mean.
inline constexpr std::string_view kFormulaWords =
    "P ranks; P' the largest power of two <= P; T(P, k): of P - 1 in base k the first digit, + k - 1 for each further\n"
    "one; H hosts, of L ranks at least and n at most; folded: blocks of ranks that others stand for.\n";

struct Fraction {
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;  // > 0; not reduced
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

struct AlgorithmCost {
  std::uint32_t rounds = 0;         // one-port model: a rank sends one message and receives one at a time
  Fraction sent;                    // by the rank that sends most, in vectors: the larger of a rank's input and output
  std::string_view rounds_formula;  // in words of kFormulaWords
  std::string_view sent_formula;
  bool rounds_are_a_bound = false;  // "at most": what is exact depends on P in no simple way
};

// The world's root and hosts count where the algorithm's cost depends on them. Nullopt where the algorithm does not
// serve the collective. REQUIRES: world.size >= 1.
std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, const World& world);
inline std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, int world_size) {
  return PaperCost(collective, algorithm, World{.size = world_size});
}

// The order in which the algorithm combines the ranks' contributions to a chunk, as Proof::order prints it:
// "((0+1)+2)". REQUIRES: the algorithm serves the collective, which reduces; the chunk is one of its grid.
std::string DocumentedOrder(Collective collective, Algorithm algorithm, const World& world, std::uint32_t chunk);

// Through how many combinations a contribution goes at most in that order: what bounds the error of a floating sum
// (docs/SCHEDULES.md). The same for every collective that it serves. REQUIRES: the algorithm serves one that reduces.
std::uint32_t RoundingDepth(Algorithm algorithm, const World& world);

}  // namespace rondo
