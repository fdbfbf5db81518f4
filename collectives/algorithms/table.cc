#include "collectives/algorithms/table.h"

#include <algorithm>
#include <array>

#include "collectives/algorithms/folding.h"
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// Each function returns how many chunks a block has.
std::uint32_t One(const World& /*world*/) { return 1; }
std::uint32_t Two(const World& /*world*/) { return 2; }
std::uint32_t ByRank(const World& world) { return static_cast<std::uint32_t>(world.size); }
std::uint32_t ByCoreRank(const World& world) { return static_cast<std::uint32_t>(Folding(world.size).core); }

constexpr AlgorithmTraits kNone{};
constexpr AlgorithmTraits kRankOrder{.rank_order = true};
constexpr AlgorithmTraits kLeftFold{.rank_order = true, .left_fold = true};
constexpr AlgorithmTraits kInSlices{.in_slices = true};
constexpr AlgorithmTraits kRankOrderInSlices{.rank_order = true, .in_slices = true};
constexpr AlgorithmTraits kLeftFoldInSlices{.rank_order = true, .left_fold = true, .in_slices = true};
constexpr AlgorithmTraits kEqualCounts{.needs_equal_counts = true};
constexpr AlgorithmTraits kSpansBlocks{.spans_blocks = true};
constexpr AlgorithmTraits kSpansEqualBlocks{.needs_equal_counts = true, .spans_blocks = true};

using C = Collective;
using A = Algorithm;

constexpr std::array kTable{
    AlgorithmEntry{C::kAllReduce, A::kRing, ByRank, RingAllReduce, kInSlices},
    AlgorithmEntry{C::kAllReduce, A::kTree, One, TreeAllReduce, kRankOrder},
    AlgorithmEntry{C::kAllReduce, A::kRecursiveHalving, ByCoreRank, RecursiveHalvingAllReduce, kRankOrderInSlices},
    AlgorithmEntry{C::kAllReduce, A::kRecursiveDoubling, One, RecursiveDoublingAllReduce, kRankOrder},
    AlgorithmEntry{C::kAllReduce, A::kDirect, One, DirectAllReduce, kLeftFold},
    AlgorithmEntry{C::kAllReduce, A::kTwoShot, ByRank, TwoShotAllReduce, kLeftFoldInSlices},
    AlgorithmEntry{C::kAllReduce, A::kChain, One, ChainAllReduce, kLeftFold},
    AlgorithmEntry{C::kAllReduce, A::kDoubleTree, Two, DoubleTreeAllReduce, kRankOrder},
    AlgorithmEntry{C::kAllReduce, A::kKnomial4, One, Knomial4AllReduce, kRankOrder},
    AlgorithmEntry{C::kAllReduce, A::kKnomial8, One, Knomial8AllReduce, kRankOrder},
    AlgorithmEntry{C::kAllReduce, A::kHierarchical, HierarchicalChunks, HierarchicalAllReduce, kInSlices},

    AlgorithmEntry{C::kBroadcast, A::kTree, One, TreeBroadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kScatterAllGather, ByRank, ScatterAllGatherBroadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kDirect, One, DirectBroadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kChain, One, ChainBroadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kDoubleTree, Two, DoubleTreeBroadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kKnomial4, One, Knomial4Broadcast, kNone},
    AlgorithmEntry{C::kBroadcast, A::kKnomial8, One, Knomial8Broadcast, kNone},

    AlgorithmEntry{C::kBarrier, A::kDissemination, One, DisseminationBarrier, kNone},
    AlgorithmEntry{C::kBarrier, A::kTree, One, TreeBarrier, kNone},

    AlgorithmEntry{C::kReduce, A::kTree, One, TreeReduce, kRankOrder},
    AlgorithmEntry{C::kReduce, A::kRing, ByRank, RingReduce, kNone},
    AlgorithmEntry{C::kReduce, A::kRecursiveHalving, ByCoreRank, RecursiveHalvingReduce, kRankOrder},
    AlgorithmEntry{C::kReduce, A::kDirect, One, DirectReduce, kLeftFold},
    AlgorithmEntry{C::kReduce, A::kChain, One, ChainReduce, kLeftFold},
    AlgorithmEntry{C::kReduce, A::kKnomial4, One, Knomial4Reduce, kRankOrder},
    AlgorithmEntry{C::kReduce, A::kKnomial8, One, Knomial8Reduce, kRankOrder},

    AlgorithmEntry{C::kAllGather, A::kRing, One, RingAllGather, kNone},
    AlgorithmEntry{C::kAllGather, A::kRecursiveDoubling, One, RecursiveDoublingAllGather, kSpansBlocks},
    AlgorithmEntry{C::kAllGather, A::kBruck, One, BruckAllGather, kSpansBlocks},
    AlgorithmEntry{C::kAllGather, A::kDirect, One, DirectAllGather, kNone},
    AlgorithmEntry{C::kAllGather, A::kKnomial4, One, Knomial4AllGather, kSpansBlocks},
    AlgorithmEntry{C::kAllGather, A::kKnomial8, One, Knomial8AllGather, kSpansBlocks},

    AlgorithmEntry{C::kReduceScatter, A::kRing, One, RingReduceScatter, kNone},
    AlgorithmEntry{C::kReduceScatter, A::kRecursiveHalving, One, RecursiveHalvingReduceScatter, kSpansBlocks},
    AlgorithmEntry{C::kReduceScatter, A::kDirect, One, DirectReduceScatter, kLeftFold},
    AlgorithmEntry{C::kReduceScatter, A::kPairwise, One, PairwiseReduceScatter, kNone},

    AlgorithmEntry{C::kGather, A::kTree, One, TreeGather, kSpansEqualBlocks},
    AlgorithmEntry{C::kGather, A::kDirect, One, DirectGather, kNone},

    AlgorithmEntry{C::kScatter, A::kTree, One, TreeScatter, kSpansEqualBlocks},
    AlgorithmEntry{C::kScatter, A::kDirect, One, DirectScatter, kNone},

    AlgorithmEntry{C::kAllToAll, A::kPairwise, One, PairwiseAllToAll, kNone},
    AlgorithmEntry{C::kAllToAll, A::kDirect, One, DirectAllToAll, kNone},
    AlgorithmEntry{C::kAllToAll, A::kBruck, One, BruckAllToAll, kEqualCounts},
};

// All values of one member of the entries, without duplicates.
template <typename T>
std::vector<T> Distinct(T AlgorithmEntry::*member) {
  std::vector<T> values;
  for (const AlgorithmEntry& entry : kTable)
    if (std::find(values.begin(), values.end(), entry.*member) == values.end()) values.push_back(entry.*member);
  return values;
}

}  // namespace

std::span<const AlgorithmEntry> AllAlgorithms() { return kTable; }
std::vector<Collective> DistinctCollectives() { return Distinct(&AlgorithmEntry::collective); }
std::vector<Algorithm> DistinctAlgorithms() { return Distinct(&AlgorithmEntry::algorithm); }

const AlgorithmEntry* FindAlgorithm(Collective collective, Algorithm algorithm) {
  for (const AlgorithmEntry& entry : kTable) {
    if (entry.collective == collective && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

}  // namespace rondo
