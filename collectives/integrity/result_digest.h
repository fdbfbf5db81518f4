// Whether all ranks got the same result: each knows the checksum of its own (CRC-32C), and all of them know all after
// a small all_gather. For what no checksum on a wire can see: memory, processors and programs that differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "collectives/schedule/step.h"

namespace rondo {

// Whether every rank has the same bytes afterwards.
bool HasEqualResults(Collective collective);

// `digests`: of each rank's result, by rank. Nothing where all are the same; else kCorrupt, alike on every rank. Where
// more than half of the ranks have one result the others are named, the first of them as the culprit; else nobody knows
// who is right, and all digests are told. Of many ranks the first 16. The operation is the caller's to add.
std::optional<Error> FindOddResults(std::span<const std::uint32_t> digests);

}  // namespace rondo
