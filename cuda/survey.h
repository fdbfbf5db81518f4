// A survey of the GPUs that NVIDIA's driver reports. It creates no context and allocates no device memory. But the
// first use of the driver may create device files, and the control daemon of MPS may start a server for this user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/cuda.h"

namespace rondo {

struct SurveyedGpu {
  enum class Access : std::uint8_t {
    kShared,      // any number of processes may use the GPU
    kOneProcess,  // one process at a time may use it
    kProhibited,  // no process may use it
  };

  std::string name;         // "GPU 0 (NVIDIA H200)"; the number is CUDA's, which may differ from nvidia-smi's
  std::string pci_address;  // "0000:10:00.0"
  Access access = Access::kShared;
  // Whether processes that share the GPU run side by side (MPS) instead of time-slicing. Absent if an older driver does
  // not report it.
  std::optional<bool> mps = {};
};

struct GpuSurvey {
  int driver_version = 0;  // CUDA version of the driver: 13000 is CUDA 13.0
  std::vector<SurveyedGpu> gpus;
};

// Whether this build supports CUDA.
bool BuiltWithCuda();

// kUnsupported: there is no GPU, and the message says why, as for OpenCuda. Other errors are the driver's
// (Driver::Check). If a GPU is broken, the driver may block forever. Thread rule: any thread.
Result<GpuSurvey> SurveyGpus(const CudaOptions& options = {});

}  // namespace rondo
