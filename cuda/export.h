// Memory of a GPU as adapters are told of it: GPUDirect RDMA.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/gpu.h"

namespace rondo::cuda {

// The allocation in which `memory` lies: as a dma-buf where this GPU's driver exports such, else by its address alone.
// Whatever is synchronous on it is so for other devices, too, from now on. kUnsupported: it lies in no allocation.
Result<ExportedMemory> Export(const Gpu& gpu, const std::byte* memory);

// Of the allocation that lies there now: no other one of this process has, or ever had, the same. 0: none does.
std::uint64_t IdentityOf(const Gpu& gpu, const std::byte* memory);

}  // namespace rondo::cuda
