// NVIDIA's GPUs for communicators: a value for CommunicatorOptions::device.
//
//   RONDO_ASSIGN(options.device, rondo::OpenCuda());
//   ...
//   communicator->AllReduce(gradients, gradients, count, type, op, {.memory = MemoryKind::kDevice, .stream = stream});
//
// OpenCuda loads the driver at run time; no library of the CUDA toolkit is needed. The resources of a GPU (primary
// context, streams, pinned memory) are acquired when a communicator first works on memory of that GPU.
//
// All communicators of a process should share one Device. Otherwise the memory of another process that one communicator
// has open may prevent another communicator from opening later memory at the same address. Operations on that memory
// then use host staging.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "collectives/engine/device.h"

namespace rondo {

struct CudaOptions {
  std::string driver = {};  // file of the driver's library; "": libcuda.so.1
};

// kUnsupported says why there is no device: built without CUDA, no driver, or no GPU. Thread rule: any thread may call
// this function and use the device.
Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions& options = {});

// The same, but the first operation on GPU memory loads the driver, and gets the error if there is no device. For
// programs that do not know whether they will use GPU memory.
std::shared_ptr<Device> CudaWhenUsed(const CudaOptions& options = {});

}  // namespace rondo
