#include "collectives/algorithms/formulas.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "collectives/algorithms/formulas_parts.h"

namespace rondo {
namespace {

using formulas::CeilLog2;
using formulas::FloorLog2;
using formulas::KnomialTurns;

// The quantities from which the formulas are built.
struct Size {
  explicit Size(const World& world)
      : p(static_cast<std::uint32_t>(world.size)),
        root(static_cast<std::uint32_t>(world.root)),
        floor_log(FloorLog2(p)),
        ceil_log(CeilLog2(p)),
        core(std::bit_floor(p)),
        folds(core == p ? 0 : 1) {}

  std::uint32_t p;
  std::uint32_t root;
  std::uint32_t floor_log;
  std::uint32_t ceil_log;
  std::uint32_t core;   // P', the largest power of two <= P
  std::uint32_t folds;  // 1 if P > P'
};

constexpr std::string_view kKnomial4 = "T(P, 4)";
constexpr std::string_view kKnomial4Twice = "2 T(P, 4)";
constexpr std::string_view kKnomial8 = "T(P, 8)";
constexpr std::string_view kKnomial8Twice = "2 T(P, 8)";

AlgorithmCost HierarchicalCost(const World& world) {
  const auto by_host = formulas::RanksOfHosts(world);
  const auto hosts = static_cast<std::uint32_t>(by_host.size());
  std::uint32_t fewest = static_cast<std::uint32_t>(world.size), most = 0;
  for (const auto& members : by_host) {
    fewest = std::min(fewest, static_cast<std::uint32_t>(members.size()));
    most = std::max(most, static_cast<std::uint32_t>(members.size()));
  }
  // As in a direct reduce-scatter, member i sends to owner j in round i + j. If all members are owners, there is one
  // round less, because the highest member does not send to itself.
  const std::uint32_t give = most == 1 ? 0 : most + fewest - 2 - (most == fewest ? 1 : 0);
  return {give + 2 * (hosts - 1) + most - 1,
          {hosts * (fewest - 1) + 2 * (hosts - 1) + hosts * (most - 1), std::uint64_t{hosts} * fewest},
          "2 n + L + 2 H - 5, - 1 if n = L > 1",
          "(L + n - 2) / L + 2 (H - 1) / (H L)"};
}

std::optional<AlgorithmCost> AllReduceCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  const std::uint32_t p = n.p;
  switch (algorithm) {
    case Algorithm::kRing: return AlgorithmCost{2 * (p - 1), {2 * (p - 1), p}, "2 (P - 1)", "2 (P - 1) / P"};
    case Algorithm::kTree: return AlgorithmCost{2 * n.ceil_log, {n.ceil_log, 1}, "2 ceil(log2 P)", "ceil(log2 P)"};
    case Algorithm::kRecursiveHalving:
      return AlgorithmCost{2 * n.floor_log + 2 * n.folds,
                           {2 * (n.core - 1) + n.folds * n.core, n.core},
                           "2 floor(log2 P), + 2 if P > P'",
                           "2 (P' - 1) / P', + 1 if P > P'"};
    case Algorithm::kRecursiveDoubling:
      return AlgorithmCost{n.floor_log + 2 * n.folds,
                           {n.floor_log + n.folds, 1},
                           "floor(log2 P), + 2 if P > P'",
                           "floor(log2 P), + 1 if P > P'"};
    case Algorithm::kDirect: return AlgorithmCost{p == 1 ? 0 : 2 * p - 3, {p - 1, 1}, "2 P - 3", "P - 1"};
    case Algorithm::kTwoShot:
      return AlgorithmCost{p == 1 ? 0 : 3 * p - 4, {2 * (p - 1), p}, "3 P - 4", "2 (P - 1) / P"};
    case Algorithm::kChain: return AlgorithmCost{2 * (p - 1), {std::min(p - 1, 2u), 1}, "2 (P - 1)", "2, - 1 if P = 2"};
    case Algorithm::kDoubleTree:
      return AlgorithmCost{p == 1 ? 0 : 4 * n.ceil_log - 2,
                           {p == 1 ? 0 : std::min(p, 4u), 2},
                           "at most 4 ceil(log2 P) - 2",
                           "2, P / 2 if P < 4",
                           /*rounds_are_a_bound=*/true};
    case Algorithm::kKnomial4:
      return AlgorithmCost{2 * KnomialTurns(p, 4), {KnomialTurns(p, 4), 1}, kKnomial4Twice, kKnomial4};
    case Algorithm::kKnomial8:
      return AlgorithmCost{2 * KnomialTurns(p, 8), {KnomialTurns(p, 8), 1}, kKnomial8Twice, kKnomial8};
    case Algorithm::kHierarchical: return HierarchicalCost(world);
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> BroadcastCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  const std::uint32_t p = n.p;
  const std::uint32_t one = p == 1 ? 0 : 1;
  switch (algorithm) {
    case Algorithm::kTree: return AlgorithmCost{n.ceil_log, {n.ceil_log, 1}, "ceil(log2 P)", "ceil(log2 P)"};
    case Algorithm::kScatterAllGather:  // if P = 2, the scatter and the all-gather are one message
      return AlgorithmCost{
          p == 2 ? 1 : n.ceil_log + p - 1, {2 * (p - 1), p}, "ceil(log2 P) + P - 1, 1 if P = 2", "2 (P - 1) / P"};
    case Algorithm::kDirect: return AlgorithmCost{p - 1, {p - 1, 1}, "P - 1", "P - 1"};
    case Algorithm::kChain: return AlgorithmCost{p - 1, {one, 1}, "P - 1", "1"};
    case Algorithm::kDoubleTree:
      return AlgorithmCost{2 * n.ceil_log, {one, 1}, "at most 2 ceil(log2 P)", "1", /*rounds_are_a_bound=*/true};
    case Algorithm::kKnomial4: return AlgorithmCost{KnomialTurns(p, 4), {KnomialTurns(p, 4), 1}, kKnomial4, kKnomial4};
    case Algorithm::kKnomial8: return AlgorithmCost{KnomialTurns(p, 8), {KnomialTurns(p, 8), 1}, kKnomial8, kKnomial8};
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> ReduceCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  const std::uint32_t p = n.p;
  const std::uint32_t one = p == 1 ? 0 : 1;
  switch (algorithm) {
    case Algorithm::kRing: return AlgorithmCost{2 * (p - 1), {one, 1}, "2 (P - 1)", "1"};
    case Algorithm::kTree: return AlgorithmCost{n.ceil_log, {one, 1}, "ceil(log2 P)", "1"};
    case Algorithm::kRecursiveHalving:
      return AlgorithmCost{2 * n.floor_log + n.folds,
                           {p == 1 ? 0 : 3 * n.core / 2 - 1, n.core},
                           "2 floor(log2 P), + 1 if P > P'",
                           "(3 P' / 2 - 1) / P'"};
    case Algorithm::kDirect: return AlgorithmCost{p - 1, {one, 1}, "P - 1", "1"};
    case Algorithm::kChain:
      return AlgorithmCost{p - 1 + (n.root == p - 1 ? 0 : 1), {one, 1}, "P, - 1 if the root is rank P - 1", "1"};
    case Algorithm::kKnomial4: return AlgorithmCost{KnomialTurns(p, 4), {one, 1}, kKnomial4, "1"};
    case Algorithm::kKnomial8: return AlgorithmCost{KnomialTurns(p, 8), {one, 1}, kKnomial8, "1"};
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> AllGatherCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  const std::uint32_t p = n.p;
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kDirect: return AlgorithmCost{p - 1, {p - 1, p}, "P - 1", "(P - 1) / P"};
    case Algorithm::kBruck: return AlgorithmCost{n.ceil_log, {p - 1, p}, "ceil(log2 P)", "(P - 1) / P"};
    case Algorithm::kKnomial4:
      return AlgorithmCost{2 * KnomialTurns(p, 4), {KnomialTurns(p, 4), 1}, kKnomial4Twice, kKnomial4};
    case Algorithm::kKnomial8:
      return AlgorithmCost{2 * KnomialTurns(p, 8), {KnomialTurns(p, 8), 1}, kKnomial8Twice, kKnomial8};
    case Algorithm::kRecursiveDoubling: {
      // If P > P', each of the first P - P' members represents two ranks, so rank 0 sends two blocks for each of them.
      // At the end rank 0 sends all P blocks to the rank that it represents.
      std::uint32_t blocks = n.core - 1 + n.folds * p;
      for (std::uint32_t members = 1; members < n.core; members *= 2) blocks += std::min(members, p - n.core);
      return AlgorithmCost{n.floor_log + 2 * n.folds,
                           {blocks, p},
                           "floor(log2 P), + 2 if P > P'",
                           "(P' - 1 + folded) / P, + 1 if P > P'"};
    }
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> ReduceScatterCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  const std::uint32_t p = n.p;
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kPairwise: return AlgorithmCost{p - 1, {p - 1, p}, "P - 1", "(P - 1) / P"};
    case Algorithm::kDirect: return AlgorithmCost{p == 1 ? 0 : 2 * p - 3, {p - 1, p}, "2 P - 3", "(P - 1) / P"};
    case Algorithm::kRecursiveHalving:
      return AlgorithmCost{
          n.floor_log + 2 * n.folds, {p - 1 + n.folds, p}, "floor(log2 P), + 2 if P > P'", "(P - 1) / P, 1 if P > P'"};
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> GatherCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  switch (algorithm) {
    case Algorithm::kDirect: return AlgorithmCost{n.p - 1, {n.p == 1 ? 0u : 1u, n.p}, "P - 1", "1 / P"};
    case Algorithm::kTree: {
      // The rank that sends most represents the half without the root, or half of the root's half.
      const std::uint32_t half = std::bit_ceil(n.p) / 2;
      const std::uint32_t blocks = n.p == 1 ? 0 : n.root >= half ? half : std::max(n.p - half, half / 2);
      return AlgorithmCost{n.ceil_log, {blocks, n.p}, "ceil(log2 P)", "blocks of the half without the root"};
    }
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> ScatterCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  switch (algorithm) {
    case Algorithm::kDirect: return AlgorithmCost{n.p - 1, {n.p - 1, n.p}, "P - 1", "(P - 1) / P"};
    case Algorithm::kTree: return AlgorithmCost{n.ceil_log, {n.p - 1, n.p}, "ceil(log2 P)", "(P - 1) / P"};
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> AllToAllCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  switch (algorithm) {
    case Algorithm::kDirect:
    case Algorithm::kPairwise: return AlgorithmCost{n.p - 1, {n.p - 1, n.p}, "P - 1", "(P - 1) / P"};
    case Algorithm::kBruck: {
      std::uint32_t hops = 0;  // a block hops once for each set bit of its distance
      for (std::uint32_t places = 1; places < n.p; ++places) hops += static_cast<std::uint32_t>(std::popcount(places));
      return AlgorithmCost{n.ceil_log, {hops, n.p}, "ceil(log2 P)", "set bits of 1 .. P - 1, / P"};
    }
    default: return std::nullopt;
  }
}

std::optional<AlgorithmCost> BarrierCost(Algorithm algorithm, const World& world) {
  const Size n(world);
  switch (algorithm) {
    case Algorithm::kDissemination: return AlgorithmCost{n.ceil_log, {0, 1}, "ceil(log2 P)", "0"};
    case Algorithm::kTree: return AlgorithmCost{2 * n.ceil_log, {0, 1}, "2 ceil(log2 P)", "0"};
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<AlgorithmCost> PaperCost(Collective collective, Algorithm algorithm, const World& world) {
  RONDO_CHECK(world.size >= 1);
  switch (collective) {
    case Collective::kAllReduce: return AllReduceCost(algorithm, world);
    case Collective::kBroadcast: return BroadcastCost(algorithm, world);
    case Collective::kBarrier: return BarrierCost(algorithm, world);
    case Collective::kReduce: return ReduceCost(algorithm, world);
    case Collective::kAllGather: return AllGatherCost(algorithm, world);
    case Collective::kReduceScatter: return ReduceScatterCost(algorithm, world);
    case Collective::kGather: return GatherCost(algorithm, world);
    case Collective::kScatter: return ScatterCost(algorithm, world);
    case Collective::kAllToAll: return AllToAllCost(algorithm, world);
  }
  return std::nullopt;
}

}  // namespace rondo
