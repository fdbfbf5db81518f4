// Exports GPU memory to network adapters (GPUDirect RDMA).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/gpu.h"

namespace rondo::cuda {

// Exports the allocation that contains `memory`: as a dma-buf if this GPU's driver supports that, otherwise by its
// address only. From now on synchronous operations on the allocation are also synchronous for other devices
// (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS). kUnsupported: no allocation contains `memory`.
Result<ExportedMemory> Export(const Gpu& gpu, const std::byte* memory);

// The identity of the allocation that contains `memory` now. No two allocations of this process ever have the same
// identity. 0: no allocation contains `memory`.
std::uint64_t IdentityOf(const Gpu& gpu, const std::byte* memory);

}  // namespace rondo::cuda
