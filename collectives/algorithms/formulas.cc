#include "collectives/algorithms/formulas.h"

#include <bit>

#include "base/check.h"

namespace rondo {
namespace {

std::uint32_t FloorLog2(std::uint32_t value) { return static_cast<std::uint32_t>(std::bit_width(value)) - 1; }
std::uint32_t CeilLog2(std::uint32_t value) { return static_cast<std::uint32_t>(std::bit_width(value - 1)); }

std::optional<AlgorithmCost> AllReduceCost(Algorithm algorithm, std::uint32_t p) {
  const std::uint32_t core = std::bit_floor(p);
  const std::uint32_t folds = core == p ? 0 : 1;
  switch (algorithm) {
    case Algorithm::kRing: return AlgorithmCost{2 * (p - 1), {2 * (p - 1), p}, "2 (P - 1)", "2 (P - 1) / P"};
    case Algorithm::kTree: return AlgorithmCost{2 * CeilLog2(p), {CeilLog2(p), 1}, "2 ceil(log2 P)", "ceil(log2 P)"};
    case Algorithm::kRecursiveHalving:
      return AlgorithmCost{2 * FloorLog2(p) + 2 * folds,
                           {2 * (core - 1) + folds * core, core},
                           "2 floor(log2 P), + 2 if P > P'",
                           "2 (P' - 1) / P', + 1 if P > P'"};
    case Algorithm::kRecursiveDoubling:
      return AlgorithmCost{FloorLog2(p) + 2 * folds,
                           {FloorLog2(p) + folds, 1},
                           "floor(log2 P), + 2 if P > P'",
                           "floor(log2 P), + 1 if P > P'"};
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> BroadcastCost(Algorithm algorithm, std::uint32_t p) {
  switch (algorithm) {
    case Algorithm::kTree: return AlgorithmCost{CeilLog2(p), {CeilLog2(p), 1}, "ceil(log2 P)", "ceil(log2 P)"};
    case Algorithm::kScatterAllGather:
      return AlgorithmCost{CeilLog2(p) + p - 1, {2 * (p - 1), p}, "ceil(log2 P) + P - 1", "2 (P - 1) / P"};
    default: return std::nullopt;
  }
}

std::string Combined(const std::string& left, const std::string& right) { return "(" + left + "+" + right + ")"; }

// The left fold of ranks first..last: "((4+5)+6)".
std::string Fold(int first, int last) {
  std::string text = std::to_string(first);
  for (int rank = first + 1; rank <= last; ++rank) text = Combined(text, std::to_string(rank));
  return text;
}

// Along the ring from the rank after `chunk` to rank `chunk`; rank 0 joins from the left.
std::string RingOrder(int world, int chunk) {
  if (chunk == world - 1) return Fold(0, world - 1);
  std::string text = Combined("0", Fold(chunk + 1, world - 1));
  for (int rank = 1; rank <= chunk; ++rank) text = Combined(text, std::to_string(rank));
  return text;
}

// A block of `ranks` splits at the largest power of two below.
std::string BinomialOrder(int first, int ranks) {
  if (ranks == 1) return std::to_string(first);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2;
  return Combined(BinomialOrder(first, left), BinomialOrder(first + left, ranks - left));
}

// A balanced tree over a core of a power of two, whose first `extra` members stand for two ranks each.
std::string BalancedOrder(int first_member, int members, int extra) {
  if (members > 1) {
    return Combined(BalancedOrder(first_member, members / 2, extra),
                    BalancedOrder(first_member + members / 2, members / 2, extra));
  }
  return first_member < extra ? Fold(2 * first_member, 2 * first_member + 1) : std::to_string(first_member + extra);
}

}  // namespace

std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, int world_size) {
  RONDO_CHECK(world_size >= 1);
  const auto p = static_cast<std::uint32_t>(world_size);
  switch (collective) {
    case Collective::kAllReduce: return AllReduceCost(algorithm, p);
    case Collective::kBroadcast: return BroadcastCost(algorithm, p);
    case Collective::kBarrier:
      if (algorithm != Algorithm::kDissemination) return std::nullopt;
      return AlgorithmCost{CeilLog2(p), {0, 1}, "ceil(log2 P)", "0"};
    default: return std::nullopt;
  }
  return std::nullopt;
}

std::string DocumentedOrder(Algorithm algorithm, int world_size, std::uint32_t chunk) {
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)));
  switch (algorithm) {
    case Algorithm::kRing: return RingOrder(world_size, static_cast<int>(chunk));
    case Algorithm::kTree: return BinomialOrder(0, world_size);
    case Algorithm::kRecursiveHalving:
    case Algorithm::kRecursiveDoubling: return BalancedOrder(0, core, world_size - core);
    default: break;
  }
  RONDO_CHECK(false, "{} is no all-reduce", Name(algorithm));
  return {};
}

std::uint32_t RoundingDepth(Algorithm algorithm, int world_size) {
  const auto p = static_cast<std::uint32_t>(world_size);
  switch (algorithm) {
    case Algorithm::kRing: return p - 1;
    case Algorithm::kTree:
    case Algorithm::kRecursiveHalving:
    case Algorithm::kRecursiveDoubling: return CeilLog2(p);
    default: break;
  }
  RONDO_CHECK(false, "{} is no all-reduce", Name(algorithm));
  return 0;
}

}  // namespace rondo
