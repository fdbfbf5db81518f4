// The field's identifiers, one meaning each.
#pragma once

#include <cstdint>

namespace rondo {

// The number of a process within a communicator, 0 <= rank < world size. kNoRank says "nobody in particular".
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;

// Counts the collectives of one communicator, from 1; every rank counts alike, so a number names one operation.
using Sequence = std::uint64_t;

}  // namespace rondo
