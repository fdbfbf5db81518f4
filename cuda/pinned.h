// Pinned host memory: a GPU can access it, and the system does not move its pages.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/gpu.h"

namespace rondo::cuda {

inline constexpr unsigned kPinFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;

// Pins `memory` until the returned object ends; does nothing if `memory` is empty. The caller still owns the memory.
// Thread rule: any thread.
Result<std::unique_ptr<PinnedMemory>> Pin(std::shared_ptr<const Gpu> gpu, MutableBytes memory);

}  // namespace rondo::cuda
