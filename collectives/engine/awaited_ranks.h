#pragma once

#include <cstdint>

namespace rondo {

// On which cores the ranks run that the running operation waits for, as far as these ranks have published it. A rank on
// this rank's core can make progress only if this rank yields the core. For ranks on other cores polling is enough.
enum class AwaitedRanks : std::uint8_t {
  kUnknown,
  kOnThisCore,    // at least one of them runs on the caller's core
  kOnOtherCores,  // all of them run on other cores
};

}  // namespace rondo
