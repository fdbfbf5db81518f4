// What NVIDIA's driver tells of its GPUs. None of them is taken for it: no context is made, no memory used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/cuda.h"

namespace rondo {

struct SurveyedGpu {
  enum class Access : std::uint8_t {
    kShared,  // by any number of processes
    kOneProcess,
    kNobody,
  };

  std::string name;  // "GPU 0 (NVIDIA H200)"
  Access access = Access::kShared;
  bool mps = false;  // processes that share it are served side by side, not by turns
};

struct GpuSurvey {
  int driver_version = 0;  // 13000 is CUDA 13.0
  std::vector<SurveyedGpu> gpus;
};

// kUnsupported says why there is none, as OpenCuda does. Thread rule: any thread.
Result<GpuSurvey> SurveyGpus(const CudaOptions& options = {});

}  // namespace rondo
