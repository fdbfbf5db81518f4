// A device for a while, on a thread that may never have had one.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

namespace rondo_torch {

// Makes `device` the thread's; none, or the host: does nothing. Meanwhile nothing that the thread asks of CUDA breaks a
// capture of another thread, which in the global mode forbids everybody what may be unsafe.
//
// Whatever has events of a device is to go before this does: one that is destroyed goes back to the thread's device of
// before, and that of a thread which has none is GPU 0, where a context would be made.
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
