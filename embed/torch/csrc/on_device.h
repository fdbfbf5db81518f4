// Selects a device for a scope, on a thread that perhaps has not used any device yet.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

namespace rondo_torch {

// Makes `device` the current device of the thread. Does nothing if `device` is empty or the host. In the scope, CUDA
// calls of this thread do not break stream captures of other threads. Without this class, a capture in global mode
// would forbid unsafe calls to all threads.
//
// Objects with events of the device must be destroyed before this object. The reason is that destroying an event
// switches back to the device that the thread used before. If the thread used none, CUDA switches to GPU 0 and creates
// a context there.
class OnDevice {
 public:
  explicit OnDevice(c10::optional<c10::Device> device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  c10::OptionalDeviceGuard guard_;
  bool is_on_ = false;
  int mode_;
};

}  // namespace rondo_torch
