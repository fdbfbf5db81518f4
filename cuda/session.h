// A GPU as a tool uses it: memory, a stream, and times by the GPU's own clock. Programs have their own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/engine/device.h"
#include "cuda/cuda.h"

namespace rondo {

// Freed by its destructor, which comes before the session's.
class CudaMemory {
 public:
  virtual ~CudaMemory() = default;
  virtual std::byte* address() const = 0;  // the GPU's: not for the processor
};

// Work that can be put on a stream again and again. Destroyed before the session, when no launch is under way.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual Status Launch() = 0;  // on the session's stream
};

// Thread rule: one thread at a time. Whatever fails gives what the driver says (cuda/driver.h).
class CudaSession {
 public:
  virtual ~CudaSession() = default;

  virtual const std::string& gpu() const = 0;  // "GPU 0 (NVIDIA H200)"
  virtual DeviceStream stream() const = 0;     // waits for no other
  // kOutOfMemory names the bytes.
  virtual Result<std::unique_ptr<CudaMemory>> Allocate(std::size_t bytes) = 0;
  virtual Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) = 0;
  // Both behind what is on the stream, and done when they return.
  virtual Status Write(std::byte* device, Bytes from) = 0;
  virtual Status Read(MutableBytes to, const std::byte* device) = 0;
  // What is put on the stream between the two calls is not done but becomes a graph.
  virtual Status BeginCapture() = 0;
  virtual Result<std::unique_ptr<CudaGraph>> EndCapture() = 0;
  // What is put on the stream between the two calls is timed; Took waits until the stream has come to the second.
  virtual Status Begin() = 0;
  virtual Status End() = 0;
  virtual Result<double> TookUs() = 0;
};

// The `nth` of those there are, counted round and round: a process of each host's for each. kUnsupported says why there
// is none.
Result<std::unique_ptr<CudaSession>> OpenCudaSession(int nth, const CudaOptions& options = {});

}  // namespace rondo
