// Compares the results of a collective on all ranks. Each rank computes the checksum (CRC-32C) of its own result, and a
// small all_gather gives all ranks all checksums. This finds errors of memory, processors and programs, which no
// checksum on a wire can find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "collectives/schedule/step.h"

namespace rondo {

// Whether the collective gives every rank the same bytes.
bool HasEqualResults(Collective collective);

// `digests`: the checksum of each rank's result, by rank. Returns nullopt if all are equal. Otherwise returns kCorrupt,
// the same error on every rank. If more than half of the ranks agree, the error names the others, and the first of
// these is the culprit. Without a majority it lists all checksums, and has no culprit. It names at most 16 ranks. The
// caller must add the operation to the error.
std::optional<Error> FindOddResults(std::span<const std::uint32_t> digests);

}  // namespace rondo
