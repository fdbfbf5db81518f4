#include "collectives/select.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>

#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// Where one algorithm overtakes another, in bytes of a rank's largest buffer. Of all_reduce and broadcast the free
// choices are measured over TCP loopback with `rondo perf --algorithm all` on a 2-core Sapphire Rapids virtual machine,
// November 2026 (docs/MEASURING.md says how to repeat it); the others follow from rounds and bytes alone. An algorithm
// is the best of its list up to so many bytes; the list is tried from the front, and what does not fit a call
// (reproducible mode, say) is passed over.
struct Preference {
  std::uint64_t up_to_bytes;
  Algorithm algorithm;
  const char* reason;
};
constexpr std::uint64_t kAnySize = ~std::uint64_t{0};

constexpr std::array kAllReduce{
    Preference{16 << 10, Algorithm::kRecursiveDoubling, "few bytes: fewest rounds"},
    Preference{512 << 10, Algorithm::kRecursiveHalving, "middle size: least data in logarithmically many rounds"},
    Preference{kAnySize, Algorithm::kRing, "many bytes: least data, only neighbours talk"},
    // In rank order.
    Preference{16 << 10, Algorithm::kDirect, "few bytes: one round"},
    Preference{kAnySize, Algorithm::kTwoShot, "least data: each rank folds its part"},
};
constexpr std::array kAllReduceOfTwo{
    Preference{16 << 10, Algorithm::kRecursiveDoubling, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kRing, "two ranks: each combines one half"},
    Preference{16 << 10, Algorithm::kDirect, "few bytes: one round"},
    Preference{kAnySize, Algorithm::kTwoShot, "two ranks: each combines one half"},
};
constexpr std::array kReduce{
    Preference{256 << 10, Algorithm::kTree, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kRing, "many bytes: least data, only neighbours talk"},
    Preference{kAnySize, Algorithm::kRecursiveHalving, "in rank order: least data"},
    Preference{16 << 10, Algorithm::kDirect, "few bytes: one round"},
    Preference{kAnySize, Algorithm::kChain, "many bytes: every rank receives and sends once"},
};
constexpr std::array kBroadcast{
    Preference{256 << 10, Algorithm::kTree, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kScatterAllGather, "many bytes: every rank sends its part on"},
};
constexpr std::array kOneTransfer{Preference{kAnySize, Algorithm::kTree, "two ranks: one transfer"},
                                  Preference{kAnySize, Algorithm::kDirect, "two ranks: one transfer"}};
constexpr std::array kAllGather{
    Preference{64 << 10, Algorithm::kBruck, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kRing, "many bytes: only neighbours talk"},
};
constexpr std::array kReduceScatter{
    Preference{64 << 10, Algorithm::kRecursiveHalving, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kRing, "many bytes: only neighbours talk"},
    Preference{kAnySize, Algorithm::kDirect, "each rank folds its part"},
};
constexpr std::array kRooted{
    Preference{16 << 10, Algorithm::kTree, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kDirect, "many bytes: each moves once"},
};
constexpr std::array kAllToAll{
    Preference{4 << 10, Algorithm::kBruck, "few bytes: fewest rounds"},
    Preference{kAnySize, Algorithm::kPairwise, "each byte moves once, one partner at a time"},
};
constexpr std::array kBarrier{Preference{kAnySize, Algorithm::kDissemination, "fewest rounds"}};

std::span<const Preference> PreferencesOf(const Call& call) {
  const bool two = call.world_size == 2;
  switch (call.collective) {
    case Collective::kAllReduce: return two ? std::span<const Preference>(kAllReduceOfTwo) : kAllReduce;
    case Collective::kBroadcast: return two ? std::span<const Preference>(kOneTransfer) : kBroadcast;
    case Collective::kReduce: return two ? std::span<const Preference>(kOneTransfer) : kReduce;
    case Collective::kAllGather: return kAllGather;
    case Collective::kReduceScatter: return kReduceScatter;
    case Collective::kGather:
    case Collective::kScatter: return kRooted;
    case Collective::kAllToAll: return kAllToAll;
    case Collective::kBarrier: return kBarrier;
  }
  return {};
}

// What is left where the best may not be used.
constexpr const char* kFits = "the first that serves this call";

}  // namespace

std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call) {
  if (Reduces(call.collective) && call.reproducible && !entry.traits.left_fold)
    return "reproducible mode wants the left fold in rank order, which it is "
           "not";
  if (Reduces(call.collective) && !call.commutative && !entry.traits.rank_order && !entry.traits.left_fold)
    return "the operation does not commute and its operands do not stand in "
           "rank order";
  if (!call.equal_counts && entry.traits.needs_equal_counts) return "it wants equal counts";
  return std::nullopt;
}

Selection Select(const Call& call) {
  for (const Preference& preference : PreferencesOf(call)) {
    if (call.bytes > preference.up_to_bytes) continue;
    const AlgorithmEntry* const entry = FindAlgorithm(call.collective, preference.algorithm);
    if (entry != nullptr && !Unfit(*entry, call)) return {preference.algorithm, preference.reason};
  }
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == call.collective && !Unfit(entry, call)) return {entry.algorithm, kFits};
  return {Algorithm::kDirect, kFits};
}

Result<Selection> SelectOr(std::optional<Algorithm> wanted, const Call& call) {
  const Selection selection = wanted ? Selection{*wanted, "asked for"} : Select(call);
  const AlgorithmEntry* const entry = FindAlgorithm(call.collective, selection.algorithm);
  if (!wanted && entry == nullptr)
    return Fail(ErrorCode::kUnsupported, "no algorithm serves {} like this", Name(call.collective));
  if (entry == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not serve {}", Name(selection.algorithm),
                Name(call.collective));
  const auto unfit = Unfit(*entry, call);
  if (!unfit) return selection;
  std::string others;
  for (const AlgorithmEntry& other : AllAlgorithms())
    if (other.collective == call.collective && !Unfit(other, call))
      others += fmt::format("{}{}", others.empty() ? "" : ", ", Name(other.algorithm));
  return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not serve this {}: {} (these do: {})",
              Name(selection.algorithm), Name(call.collective), *unfit, others.empty() ? "none" : others);
}

}  // namespace rondo
