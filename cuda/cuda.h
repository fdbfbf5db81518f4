// NVIDIA's GPUs, as communicators use them: CommunicatorOptions::device.
//
//   RONDO_ASSIGN(options.device, rondo::OpenCuda());
//   ...
//   communicator->AllReduce(gradients, gradients, count, type, op, {.memory = MemoryKind::kDevice, .stream = stream});
//
// The driver is loaded here, at run time; no library of the CUDA toolkit is needed. What belongs to a GPU (its primary
// context, streams, pinned memory) is taken when a communicator first works on memory of it. All communicators of a
// process want one such device between them: what one has open of another process's memory may else keep another one
// from opening what lies there later, and operations on that then go by way of the host.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "collectives/engine/device.h"

namespace rondo {

struct CudaOptions {
  std::string driver = {};  // the library; "": libcuda.so.1
};

// kUnsupported says why there is none: built without CUDA, no driver, or no GPU. Thread rule: any thread, and so for
// what it gives.
Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions& options = {});

// The same, loaded by the first operation on memory of a GPU, which gets the error where there is none: for who does
// not know whether there will be such an operation.
std::shared_ptr<Device> CudaWhenUsed(const CudaOptions& options = {});

}  // namespace rondo
