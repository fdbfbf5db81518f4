// In place of cuda.cc where the build has no CUDA.
#include "cuda/cuda.h"

namespace rondo {

Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions&) {
  return Fail(ErrorCode::kUnsupported,
              "this build has no CUDA: no toolkit (nvcc) was found, or --define cuda=off was asked for");
}

}  // namespace rondo
