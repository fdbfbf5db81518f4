// Lets communicators work on memory of NVIDIA's GPUs. OpenCuda returns the value for CommunicatorOptions::device:
//
//   RONDO_ASSIGN(options.device, rondo::OpenCuda());
//   ...
//   communicator->AllReduce(gradients, gradients, count, type, op, {.memory = MemoryKind::kDevice, .stream = stream});
//
// OpenCuda loads the driver at run time; no library of the CUDA toolkit is needed. The resources of a GPU (primary
// context, streams, pinned memory) are acquired when a communicator first works on memory of that GPU.
//
// All communicators of a process should share one Device. Otherwise, while one communicator has memory of another
// process open, a second communicator may be unable to open newer memory at the same address. Operations on the newer
// memory then use host staging.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "collectives/engine/device.h"

namespace rondo {

struct CudaOptions {
  std::string driver = {};  // file of the driver's library; "": libcuda.so.1
};

// kUnsupported: there is no device, and the message says why (built without CUDA, no driver, or no GPU). Thread rule:
// any thread may call this function and use the device.
Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions& options = {});

// Like OpenCuda, but the first operation on GPU memory loads the driver, and fails if there is no device. For programs
// that do not know whether they will use GPU memory.
std::shared_ptr<Device> OpenCudaLazily(const CudaOptions& options = {});

}  // namespace rondo
