// A GPU for Rondo's tools: memory, a stream, and times by the GPU's clock. Programs that use Rondo have their own code
// for this.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/cuda.h"

namespace rondo {

// Memory of the GPU. The destructor frees it; it must be destroyed before the session.
class CudaMemory {
 public:
  virtual ~CudaMemory() = default;
  virtual std::byte* address() const = 0;  // device address; the CPU must not use it
};

// Work that can be launched any number of times. It must be destroyed before the session, when no launch is under way.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual Status Launch() = 0;  // launches the graph on the session's stream
};

// Thread rule: one thread at a time. Errors are those of the driver (Driver::Check).
class CudaSession {
 public:
  virtual ~CudaSession() = default;

  virtual const std::string& gpu() const = 0;  // "GPU 0 (NVIDIA H200)"
  virtual DeviceStream stream() const = 0;     // does not synchronize with other streams
  // kOutOfMemory: the message contains `bytes`.
  virtual Result<std::unique_ptr<CudaMemory>> Allocate(std::size_t bytes) = 0;
  virtual Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) = 0;
  // Write and Read copy after the work that is on the stream, and return when the copy is done.
  virtual Status Write(std::byte* device, Bytes from) = 0;
  virtual Status Read(MutableBytes to, const std::byte* device) = 0;
  // Work that is put on the stream between BeginCapture and EndCapture does not run but becomes a graph.
  virtual Status BeginCapture() = 0;
  virtual Result<std::unique_ptr<CudaGraph>> EndCapture() = 0;
  // Begin and End mark two points of the stream. TookUs waits until the stream has reached the second point, and
  // returns the time between the two points.
  virtual Status Begin() = 0;
  virtual Status End() = 0;
  virtual Result<double> TookUs() = 0;
};

// Opens GPU number `nth` modulo the number of GPUs, so that the processes of a host spread over its GPUs. kUnsupported
// says why there is no GPU.
Result<std::unique_ptr<CudaSession>> OpenCudaSession(int nth, const CudaOptions& options = {});

}  // namespace rondo
