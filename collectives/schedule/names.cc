#include <array>
#include <utility>

#include "collectives/schedule/step.h"

namespace rondo {
namespace {

constexpr std::array<std::pair<Collective, std::string_view>, 9> kCollectives{{
    {Collective::kAllReduce, "all_reduce"},
    {Collective::kBroadcast, "broadcast"},
    {Collective::kBarrier, "barrier"},
    {Collective::kReduce, "reduce"},
    {Collective::kAllGather, "all_gather"},
    {Collective::kReduceScatter, "reduce_scatter"},
    {Collective::kGather, "gather"},
    {Collective::kScatter, "scatter"},
    {Collective::kAllToAll, "all_to_all"},
}};

constexpr std::array<std::pair<Algorithm, std::string_view>, 16> kAlgorithms{{
    {Algorithm::kRing, "ring"},
    {Algorithm::kTree, "tree"},
    {Algorithm::kRecursiveHalving, "recursive_halving"},
    {Algorithm::kRecursiveDoubling, "recursive_doubling"},
    {Algorithm::kScatterAllGather, "scatter_all_gather"},
    {Algorithm::kDissemination, "dissemination"},
    {Algorithm::kDirect, "direct"},
    {Algorithm::kChain, "chain"},
    {Algorithm::kDoubleTree, "double_tree"},
    {Algorithm::kBruck, "bruck"},
    {Algorithm::kPairwise, "pairwise"},
    {Algorithm::kKnomial4, "knomial4"},
    {Algorithm::kKnomial8, "knomial8"},
    {Algorithm::kHierarchical, "hierarchical"},
    {Algorithm::kTwoShot, "two_shot"},
    {Algorithm::kIntranode, "intranode"},
}};

// A value that arrived over a wire may be none of the known ones; its name is "unknown".
template <typename Table, typename Value>
std::string_view NameIn(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

template <typename Value, typename Table>
std::optional<Value> ValueIn(const Table& table, std::string_view wanted) {
  for (const auto& [value, name] : table) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(Collective collective) { return NameIn(kCollectives, collective); }
std::optional<Collective> ParseCollective(std::string_view name) { return ValueIn<Collective>(kCollectives, name); }

std::string_view Name(Algorithm algorithm) { return NameIn(kAlgorithms, algorithm); }
std::optional<Algorithm> ParseAlgorithm(std::string_view name) { return ValueIn<Algorithm>(kAlgorithms, name); }

bool ScheduleKey::operator==(const ScheduleKey& other) const {
  const bool same_hosts =
      hosts == other.hosts || (hosts != nullptr && other.hosts != nullptr && *hosts == *other.hosts);
  return same_hosts && collective == other.collective && algorithm == other.algorithm &&
         world_size == other.world_size && root == other.root && in_place == other.in_place && scaled == other.scaled;
}

}  // namespace rondo
