#include "collectives/select.h"

namespace rondo {
namespace {

// Where one algorithm overtakes another, measured over TCP loopback with `rondo perf --algorithm all` on a 2-core
// Sapphire Rapids virtual machine, November 2026 (docs/MEASURING.md says how to repeat it).
constexpr std::uint64_t kDoublingUpToBytes = 16 << 10;
constexpr std::uint64_t kHalvingUpToBytes = 512 << 10;
constexpr std::uint64_t kTreeBroadcastUpToBytes = 256 << 10;

}  // namespace

Selection Select(Collective collective, int world_size, std::uint64_t bytes) {
  switch (collective) {
    case Collective::kAllReduce:
      if (bytes <= kDoublingUpToBytes) return {Algorithm::kRecursiveDoubling, "few bytes: fewest rounds"};
      if (bytes <= kHalvingUpToBytes && world_size > 2)
        return {Algorithm::kRecursiveHalving, "middle size: least data in logarithmically many rounds"};
      return {Algorithm::kRing, "many bytes: least data, only neighbours talk"};
    case Collective::kBroadcast:
      if (bytes <= kTreeBroadcastUpToBytes || world_size == 2)
        return {Algorithm::kTree, world_size == 2 ? "two ranks: one transfer" : "few bytes: fewest rounds"};
      return {Algorithm::kScatterAllGather, "many bytes: every rank sends its part on"};
    case Collective::kBarrier: return {Algorithm::kDissemination, "the only one"};
    default: break;
  }
  return {Algorithm::kRing, "unknown collective"};
}

}  // namespace rondo
