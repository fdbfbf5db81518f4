#include <mutex>

#include "cuda/cuda.h"

namespace rondo {
namespace {

class LazyDevice final : public Device {
 public:
  explicit LazyDevice(const CudaOptions& options) : options_(options) {}
  Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, DeviceStream stream,
                                            std::size_t most_operations) override {
    RONDO_ASSIGN(Device* const loaded, Loaded());
    return loaded->Open(memory, stream, most_operations);
  }

 private:
  Result<Device*> Loaded() {
    const std::lock_guard lock(mutex_);
    if (device_ == nullptr) {
      RONDO_ASSIGN(device_, OpenCuda(options_));
    }
    return device_.get();
  }

  const CudaOptions options_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;
};

}  // namespace

std::shared_ptr<Device> OpenCudaLazily(const CudaOptions& options) { return std::make_shared<LazyDevice>(options); }

}  // namespace rondo
