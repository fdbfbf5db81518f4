// Compares the results of a collective on all ranks. Each rank computes the checksum (CRC-32C) of its own result, and a
// small all_gather gives all ranks all checksums. This finds errors that no checksum on a wire can find: of memory,
// processors and programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "collectives/schedule/step.h"

namespace rondo {

// Whether the collective gives every rank the same bytes.
bool HasEqualResults(Collective collective);

// `digests`: the checksum of each rank's result, by rank. nullopt: all are equal. Otherwise kCorrupt, the same error on
// every rank. If more than half of the ranks agree, the error names the others, and the first of them is the culprit.
// Without a majority it lists all checksums, without a culprit. It names at most 16 ranks. The caller must add the
// operation to the error.
std::optional<Error> FindOddResults(std::span<const std::uint32_t> digests);

}  // namespace rondo
