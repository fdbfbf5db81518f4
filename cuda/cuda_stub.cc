// Replaces cuda.cc, session.cc and survey.cc in builds without CUDA: every call fails with kUnsupported.
#include "cuda/cuda.h"
#include "cuda/session.h"
#include "cuda/survey.h"

namespace rondo {
namespace {

tl::unexpected<Error> WithoutCuda() {
  return Fail(ErrorCode::kUnsupported,
              "this build has no CUDA: no toolkit (nvcc) was found, or --define cuda=off was given");
}

}  // namespace

Result<std::shared_ptr<Device>> OpenCuda(const CudaOptions&) { return WithoutCuda(); }
Result<std::unique_ptr<CudaSession>> OpenCudaSession(int, const CudaOptions&) { return WithoutCuda(); }
bool BuiltWithCuda() { return false; }
Result<GpuSurvey> SurveyGpus(const CudaOptions&) { return WithoutCuda(); }

}  // namespace rondo
