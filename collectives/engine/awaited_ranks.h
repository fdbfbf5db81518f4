#pragma once

#include <cstdint>

namespace rondo {

// Says whether this rank shares its core with a rank for which the running operation waits. A rank knows another rank's
// core only if that rank has published it. A rank on the same core can make progress only if this rank yields the core.
// For ranks on other cores polling is enough.
enum class AwaitedRanks : std::uint8_t {
  kUnknown,
  kOnThisCore,    // at least one awaited rank runs on the caller's core
  kOnOtherCores,  // all awaited ranks run on other cores
};

}  // namespace rondo
