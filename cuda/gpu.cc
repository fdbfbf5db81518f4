#include "cuda/gpu.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/scoped_signal_block.h"

namespace rondo::cuda {

Result<std::string> NameOf(const Driver& driver, int ordinal, CUdevice device) {
  char name[128] = "";
  RONDO_TRY(driver.Check(driver.DeviceGetName(name, sizeof name, device),
                         fmt::format("getting the name of GPU {}", ordinal)));
  return fmt::format("GPU {} ({})", ordinal, name);
}

Result<std::shared_ptr<const Gpu>> Gpu::Open(const Driver& driver, int ordinal) {
  const std::shared_ptr<Gpu> gpu(new Gpu(driver, ordinal));
  const std::string what = fmt::format("opening GPU {}", ordinal);
  RONDO_TRY(driver.Check(driver.DeviceGet(&gpu->device_, ordinal), what));
  RONDO_ASSIGN(gpu->name_, NameOf(driver, ordinal, gpu->device_));
  const ScopedSignalBlock block;  // a new context starts threads, which must not receive the program's signals
  RONDO_TRY(driver.Check(driver.DevicePrimaryCtxRetain(&gpu->context_, gpu->device_), what));
  return gpu;
}

Gpu::~Gpu() {
  if (context_ != nullptr) driver_.DevicePrimaryCtxRelease(device_);
}

void Gpu::Add(const PendingStreamWaits& one) const {
  const std::lock_guard lock(mutex_);
  waited_for_.push_back(&one);
}

void Gpu::Remove(const PendingStreamWaits& one) const {
  const std::lock_guard lock(mutex_);
  std::erase(waited_for_, &one);
}

bool Gpu::DoStreamsWait() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(waited_for_.begin(), waited_for_.end(),
                     [](const PendingStreamWaits* one) { return one->DoStreamsWait(); });
}

int Gpu::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  return driver_.DeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS ? value : 0;
}

}  // namespace rondo::cuda
