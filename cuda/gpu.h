// One GPU of this process. It uses the primary context, which it shares with all code in the process that uses the CUDA
// runtime.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/driver.h"
#include "cuda/ipc_memory_cache.h"

namespace rondo::cuda {

// The name of a GPU for messages: "GPU 0 (NVIDIA H200)".
Result<std::string> NameOf(const Driver& driver, int ordinal, CUdevice device);

class ReduceKernels;

// An object with operations for which streams may wait, such as a communicator's queue.
class PendingStreamWaits {
 public:
  virtual ~PendingStreamWaits() = default;
  // Any thread. True if some stream waits for an operation now, or will wait when it reaches the operation.
  virtual bool DoStreamsWait() const = 0;
};

// Thread rule: any thread.
class Gpu {
 public:
  // Retains the primary context until the object ends. kDevice, kOutOfMemory: the driver cannot provide the context.
  static Result<std::shared_ptr<const Gpu>> Open(const Driver& driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Every driver call on this GPU needs a Use. While a Use lives, the GPU's context is the calling thread's current
  // context; its destructor restores the previous one. A Use also makes driver calls independent of stream captures:
  // if a thread of the program captures a graph in a mode that forbids unsafe calls, calls of a running operation would
  // otherwise invalidate the capture.
  class Use {
   public:
    explicit Use(const Gpu& gpu)
        : driver_(gpu.driver_), is_pushed_(driver_.CtxPushCurrent(gpu.context_) == CUDA_SUCCESS) {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
    }
    ~Use() {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
      CUcontext own;
      // If the push failed, the GPU's context has been destroyed, and the user's context is still current.
      if (is_pushed_) driver_.CtxPopCurrent(&own);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Driver& driver_;
    const bool is_pushed_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // the thread's mode before this Use began
  };

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice device() const { return device_; }
  // Whether the GPU time-slices: it runs one process at a time. True unless this process is a client of MPS.
  bool is_time_sliced() const { return Attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED) == 0; }
  const std::string& name() const { return name_; }  // "GPU 0 (NVIDIA H200)"
  // Add and Remove register the queues of this GPU. DoStreamsWait is true while a stream waits for an operation of any
  // registered queue. During that time, work that may block until the GPU is idle is postponed.
  void Add(const PendingStreamWaits& one) const;
  void Remove(const PendingStreamWaits& one) const;
  bool DoStreamsWait() const;
  // The memory of other processes that communicators of this process have open.
  IpcMemoryCache& ipc_memory() const { return ipc_memory_; }
  // The kernels that ReduceKernels::Load has loaded, if an owner still keeps them.
  struct Kernels {
    std::mutex mutex;
    std::weak_ptr<ReduceKernels> loaded;
  };
  Kernels& kernels() const { return kernels_; }
  // The value of an attribute; 0 if the driver does not know it.
  int Attribute(CUdevice_attribute attribute) const;

 private:
  Gpu(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}

  const Driver driver_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  mutable IpcMemoryCache ipc_memory_;
  mutable Kernels kernels_;
  mutable std::mutex mutex_;
  mutable std::vector<const PendingStreamWaits*> waited_for_;
};

}  // namespace rondo::cuda
