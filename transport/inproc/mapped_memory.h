// Transport::Allocate for transports that need nothing of memory but that it is there.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "transport/transport.h"

namespace rondo {

// Page-aligned, zeroed. Zero bytes gives an empty one. kOutOfMemory names the bytes.
Result<std::unique_ptr<Memory>> MapMemory(std::size_t bytes);

}  // namespace rondo
