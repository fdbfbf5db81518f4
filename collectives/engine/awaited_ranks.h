#pragma once

#include <cstdint>

namespace rondo {

// Where the ranks run that the running operation waits for, as far as they have said. A rank that shares this rank's
// core can go on only if this rank gives the core away; for all others it is enough to look again.
enum class AwaitedRanks : std::uint8_t {
  kUnknown,
  kOnThisCore,    // one of them at least shares the caller's core
  kOnOtherCores,  // all of them
};

}  // namespace rondo
