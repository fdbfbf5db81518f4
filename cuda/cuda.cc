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

  Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, DeviceStream stream,
                                            std::size_t most_operations) override {
    RONDO_ASSIGN(const int ordinal, memory != nullptr ? OwnerOf(memory) : OwnerOf(static_cast<CUstream>(stream)));
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
      return Fail(ErrorCode::kInvalidArgument, "address {} is in memory of the host, not of a GPU", memory);
    return ordinal;
  }
  Result<int> OwnerOf(CUstream stream) const {
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (stream == nullptr || driver_.StreamGetCtx(stream, &context) != CUDA_SUCCESS)
      return driver_.CtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
    RONDO_TRY(driver_.Check(driver_.CtxPushCurrent(context), "using the context of the user's stream"));
    const Status found = driver_.Check(driver_.CtxGetDevice(&device), "getting the GPU of the user's stream");
    driver_.CtxPopCurrent(&context);
    RONDO_TRY(found);
    return device;
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
  std::vector<std::weak_ptr<const Gpu>> gpus_;  // the GPUs in use, indexed by ordinal
};

}  // namespace
}  // namespace cuda

Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions& options) {
  RONDO_ASSIGN(const cuda::Driver driver, cuda::LoadDriver(options.driver));
  return std::make_shared<cuda::Gpus>(driver);
}

}  // namespace rondo
