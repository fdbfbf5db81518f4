// Which algorithm serves a call. Pure functions of what all ranks know alike, so every rank chooses alike.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/step.h"

namespace rondo {

// What a choice may depend on.
struct Call {
  Collective collective = Collective::kBarrier;
  int world_size = 1;
  std::uint64_t bytes = 0;    // of the largest buffer of a rank; 0 where ranks know different counts (all_to_all_v ...)
  bool reproducible = false;  // a reduction must be the left fold in rank order
  bool commutative = true;    // of a reduction's operation
  bool equal_counts = true;   // of all blocks
};

struct Selection {
  Algorithm algorithm;
  const char* reason;  // one clause: "few bytes: fewest rounds"
};

// The fastest of those that serve the call, as measured (docs/MEASURING.md).
Selection Select(const Call& call);

// Why `entry` cannot serve a call of its collective, as a clause, or nothing.
std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call);

// `wanted` where it serves the call, else the choice. kInvalidArgument where `wanted` does not: it says why, and which
// would. kUnsupported where no algorithm does.
Result<Selection> SelectOr(std::optional<Algorithm> wanted, const Call& call);

}  // namespace rondo
