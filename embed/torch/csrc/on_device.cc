#include "on_device.h"

#include <dlfcn.h>

#include <exception>

namespace rondo_torch {
namespace {

// cuThreadExchangeStreamCaptureMode of the driver that torch has loaded; CUDA's headers are not available here.
using Exchange = int (*)(int* mode);
constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

Exchange FindExchange() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<Exchange>(dlsym(driver, "cuThreadExchangeStreamCaptureMode"));
}

void ExchangeMode(int* mode) {
  static const Exchange exchange = FindExchange();
  if (exchange != nullptr) exchange(mode);
}

}  // namespace

OnDevice::OnDevice(c10::optional<c10::Device> device) : mode_(kRelaxed) {
  if (!device.has_value() || device->is_cpu()) return;
  try {
    guard_.reset_device(*device);
  } catch (const std::exception&) {
    return;  // the device's context is lost; the next call that uses the device reports the error
  }
  is_on_ = true;
  ExchangeMode(&mode_);
}

OnDevice::~OnDevice() {
  if (is_on_) ExchangeMode(&mode_);
}

}  // namespace rondo_torch
