// The errors (kMismatch) with which two ranks report that they disagree about an operation.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/ids.h"
#include "collectives/engine/frame.h"

namespace rondo {

// `peer` has sent a frame of an operation other than the one that `self` is in.
Error Disagreement(Rank self, const OperationDescriptor& ours, Rank peer, const OperationDescriptor& theirs);
// `peer` has sent a frame of a transfer whose length is not the one that `self` expects.
Error AnotherLength(Rank self, const OperationDescriptor& ours, Rank peer, const FrameHeader& header,
                    std::uint64_t expected_bytes);

}  // namespace rondo
