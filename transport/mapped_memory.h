// Implements Transport::Allocate for transports that can move bytes from any memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "transport/transport.h"

namespace rondo {

// Returns page-aligned, zeroed memory. Zero bytes are legal, and give an object without memory. kOutOfMemory: the
// message names the number of bytes.
Result<std::unique_ptr<Memory>> MapMemory(std::size_t bytes);

}  // namespace rondo
