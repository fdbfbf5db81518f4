// The identifiers of collective communication.
#pragma once

#include <cstdint>

namespace rondo {

// The number of a process within a communicator, 0 <= rank < world size. kNoRank means no particular rank.
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;

// Counts the collectives of one communicator, from 1. All ranks count alike, so a number names the same operation on
// all of them.
using Sequence = std::uint64_t;

}  // namespace rondo
