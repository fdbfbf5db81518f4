// The cost of each algorithm and its order of operands, as the papers give them: closed formulas of the world size P.
// They are written from the papers, not from the generators. Tests and `rondo verify` compare every proved schedule
// with them, so that a generator that implements a different algorithm is noticed.
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
    "P: the number of ranks. P': the largest power of two that is at most P. T(P, k): the first digit of P - 1 in base "
    "k,\nplus k - 1 for each further digit. H: the number of hosts, each with at least L and at most n ranks. folded: "
    "the blocks\nof ranks that other ranks represent.\n";

struct Fraction {
  std::uint64_t numerator = 0;
  std::uint64_t denominator = 1;  // > 0; the fraction need not be in lowest terms
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

struct AlgorithmCost {
  std::uint32_t rounds = 0;  // number of rounds if a rank sends one message and receives one at a time (one-port model)
  // The largest amount that any rank sends, in vectors. A vector is the larger of a rank's input and output.
  Fraction sent;
  std::string_view rounds_formula;  // uses the symbols of kFormulaWords
  std::string_view sent_formula;
  bool rounds_are_a_bound = false;  // `rounds` is an upper limit, because the exact number is no simple function of P
};

// The cost in this world. For some algorithms it also depends on world.root or world.hosts. Nullopt: the algorithm does
// not implement the collective. REQUIRES: world.size >= 1.
std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, const World& world);
inline std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, int world_size) {
  return PaperCost(collective, algorithm, World{.size = world_size});
}

// The order in which the algorithm combines the ranks' contributions to a chunk, as Proof::order prints it:
// "((0+1)+2)". REQUIRES: the collective reduces, the algorithm implements it, and its schedule has this chunk.
std::string DocumentedOrder(Collective collective, Algorithm algorithm, const World& world, std::uint32_t chunk);

// The largest number of combinations that a contribution passes through in the order of DocumentedOrder. This number
// limits the error of a floating-point sum (docs/SCHEDULES.md), and is the same for all collectives of the algorithm.
// REQUIRES: the algorithm implements a collective that reduces.
std::uint32_t RoundingDepth(Algorithm algorithm, const World& world);

}  // namespace rondo
