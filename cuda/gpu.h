// One GPU of this process: its primary context, which it shares with everybody who uses the CUDA runtime here.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/driver.h"
#include "cuda/opened_memory.h"

namespace rondo::cuda {

// "GPU 0 (NVIDIA H200)".
Result<std::string> NameOf(const Driver& driver, int ordinal, CUdevice device);

class FoldKernels;

// Whose operations streams wait for: a communicator's queue.
class StreamsWaitFor {
 public:
  virtual ~StreamsWaitFor() = default;
  // Any thread.
  virtual bool DoStreamsWait() const = 0;
};

// Thread rule: any thread.
class Gpu {
 public:
  // Keeps the primary context until it ends. kDevice, kOutOfMemory: the driver does not give it.
  static Result<std::shared_ptr<const Gpu>> Open(const Driver& driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // What calls on it need: the context is the calling thread's, until this ends, and then whatever was before is again.
  // Nor does it matter to them, or they to it, whether some thread of the program captures a graph: a capture that
  // forbids calls which may be unsafe would else be broken by those of an operation that is driven meanwhile.
  class Use {
   public:
    explicit Use(const Gpu& gpu)
        : driver_(gpu.driver_), is_pushed_(driver_.CtxPushCurrent(gpu.context_) == CUDA_SUCCESS) {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
    }
    ~Use() {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
      CUcontext own;
      if (is_pushed_) driver_.CtxPopCurrent(&own);  // else it is the user's, and ours has been destroyed
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Driver& driver_;
    const bool is_pushed_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // in between, what the thread's was
  };

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice device() const { return device_; }
  // Whether it serves one process at a time and is handed on among them: unless this process is a client of MPS.
  bool takes_turns() const { return Attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED) == 0; }
  const std::string& name() const { return name_; }  // "GPU 0 (NVIDIA H200)"
  // What may take until the GPU has nothing to do is put off while a stream waits for an operation, whosever.
  void Add(const StreamsWaitFor& one) const;
  void Remove(const StreamsWaitFor& one) const;
  bool DoStreamsWait() const;
  // What communicators of this process have open of others' memory.
  OpenedMemory& opened() const { return opened_; }
  // What FoldKernels::Load has loaded, as long as somebody has it.
  struct Kernels {
    std::mutex mutex;
    std::weak_ptr<FoldKernels> loaded;
  };
  Kernels& kernels() const { return kernels_; }
  // 0 where the driver does not know the attribute.
  int Attribute(CUdevice_attribute attribute) const;

 private:
  Gpu(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}

  const Driver driver_;
  const int ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  mutable OpenedMemory opened_;
  mutable Kernels kernels_;
  mutable std::mutex mutex_;
  mutable std::vector<const StreamsWaitFor*> waited_for_;
};

}  // namespace rondo::cuda
