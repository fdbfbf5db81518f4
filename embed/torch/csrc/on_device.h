// Selects a device for a scope, on a thread that may not have used any device yet.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

namespace rondo_torch {

// Makes `device` the current device of the thread. Does nothing if there is none, or if it is the host. In the scope no
// CUDA call of this thread breaks a stream capture of another thread; a capture in global mode otherwise forbids unsafe
// calls to all threads.
//
// Objects with events of the device must be destroyed before this object. Destroying an event switches back to the
// thread's earlier device. For a thread without one that is GPU 0, and a context would be made there.
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
