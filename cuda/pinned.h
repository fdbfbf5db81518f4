// Memory of the host that a GPU reaches: pages that stay where they are.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/gpu.h"

namespace rondo::cuda {

inline constexpr unsigned kPinFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

// Nothing where `memory` is empty. Its pages stay the caller's. Thread rule: any thread.
Result<std::unique_ptr<PinnedMemory>> Pin(std::shared_ptr<const Gpu> gpu, MutableBytes memory);

}  // namespace rondo::cuda
