#include "cuda/cuda.h"

#include <mutex>
#include <vector>

#include "cuda/driver.h"
#include "cuda/gpu.h"
#include "cuda/queue.h"

namespace rondo {
namespace cuda {
namespace {

class Gpus final : public Device {
 public:
  explicit Gpus(const Driver& driver) : driver_(driver) {}

  Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, std::size_t most_operations) override {
    RONDO_ASSIGN(const int ordinal, memory != nullptr ? OwnerOf(memory) : CurrentOne());
    RONDO_ASSIGN(auto gpu, GpuOf(ordinal));
    RONDO_ASSIGN(auto queue, Queue::Make(std::move(gpu), most_operations));
    return queue;
  }

 private:
  Result<int> OwnerOf(const void* memory) const {
    const auto at = reinterpret_cast<CUdeviceptr>(memory);
    unsigned type = 0;
    int ordinal = -1;
    if (driver_.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
        type == CU_MEMORYTYPE_HOST ||
        driver_.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) != CUDA_SUCCESS || ordinal < 0)
      return Fail(ErrorCode::kInvalidArgument, "{} is memory of the host, not of a GPU", memory);
    return ordinal;
  }
  int CurrentOne() const {
    CUdevice current = 0;
    return driver_.CtxGetDevice(&current) == CUDA_SUCCESS ? current : 0;
  }
  Result<std::shared_ptr<const Gpu>> GpuOf(int ordinal) {
    const std::lock_guard lock(mutex_);
    const auto at = static_cast<std::size_t>(ordinal);
    if (gpus_.size() <= at) gpus_.resize(at + 1);
    if (auto gpu = gpus_[at].lock()) return gpu;
    RONDO_ASSIGN(auto gpu, Gpu::Open(driver_, ordinal));
    gpus_[at] = gpu;
    return gpu;
  }

  const Driver driver_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<const Gpu>> gpus_;  // by ordinal: those in use
};

}  // namespace
}  // namespace cuda

Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions& options) {
  RONDO_ASSIGN(const cuda::Driver driver, cuda::LoadDriver(options.driver));
  return std::make_shared<cuda::Gpus>(driver);
}

}  // namespace rondo
