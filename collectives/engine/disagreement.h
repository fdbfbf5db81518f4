// The errors of ranks that disagree about an operation (kMismatch), as both of them report it.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/ids.h"
#include "collectives/engine/frame.h"

namespace rondo {

// `peer` has sent a frame of another operation than `self` is in.
Error Disagreement(Rank self, const OperationDescriptor& ours, Rank peer, const OperationDescriptor& theirs);
// `peer` has sent a frame of a transfer of another length.
Error AnotherLength(Rank self, const OperationDescriptor& ours, Rank peer, const FrameHeader& header,
                    std::uint64_t expected_bytes);

}  // namespace rondo
