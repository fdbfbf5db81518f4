// The costs and orders that the papers give for each algorithm, as closed formulas of the world size P. They are
// written from the papers, not from the generators. Tests and `rondo verify` compare every proved schedule with them,
// so that no algorithm silently runs as another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule/step.h"
#include "collectives/schedule/transfers.h"

namespace rondo {

// Explains the symbols in the formulas' texts.
inline constexpr std::string_view kFormulaWords =
    "P ranks; P' the largest power of two <= P; T(P, k): of P - 1 in base k the first digit, + k - 1 for each further\n"
    "one; H hosts, of L ranks at least and n at most; folded: blocks of ranks that others stand for.\n";

struct Fraction {
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;  // > 0; not reduced
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

struct AlgorithmCost {
  std::uint32_t rounds = 0;  // one-port model: a rank sends one message and receives one at a time
  Fraction sent;  // by the rank that sends most, in vectors; a vector is the larger of a rank's input and output
  std::string_view rounds_formula;  // uses the symbols of kFormulaWords
  std::string_view sent_formula;
  bool rounds_are_a_bound = false;  // `rounds` is an upper limit, because the exact number is no simple function of P
};

// The cost in this world; its root and hosts matter if the algorithm's cost depends on them. Nullopt: the algorithm
// does not implement the collective. REQUIRES: world.size >= 1.
std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, const World& world);
inline std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, int world_size) {
  return PaperCost(collective, algorithm, World{.size = world_size});
}

// The order in which the algorithm combines the ranks' contributions to a chunk, as Proof::order prints it:
// "((0+1)+2)". REQUIRES: the algorithm implements the collective, which reduces; the chunk is one of its grid.
std::string DocumentedOrder(Collective collective, Algorithm algorithm, const World& world, std::uint32_t chunk);

// The largest number of combinations that a contribution passes through in that order. It limits the error of a
// floating-point sum (docs/SCHEDULES.md). It is the same for all collectives of the algorithm. REQUIRES: the algorithm
// implements one that reduces.
std::uint32_t RoundingDepth(Algorithm algorithm, const World& world);

}  // namespace rondo
