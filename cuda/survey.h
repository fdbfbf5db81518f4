// What NVIDIA's driver tells of its GPUs. No context is made on any of them and no memory taken; but a driver that is
// asked for the first time may make device files, and the control daemon of MPS start a server for this user.
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
    kShared,  // by any number of processes
    kOneProcess,
    kNobody,
  };

  std::string name;         // "GPU 0 (NVIDIA H200)"; the number is CUDA's, nvidia-smi may count otherwise
  std::string pci_address;  // "0000:10:00.0"
  Access access = Access::kShared;
  // Whether processes that share it are served side by side, not by turns. Absent: an older driver does not tell.
  std::optional<bool> mps = {};
};

struct GpuSurvey {
  int driver_version = 0;  // 13000 is CUDA 13.0
  std::vector<SurveyedGpu> gpus;
};

// Whether this build knows NVIDIA's driver at all.
bool BuiltWithCuda();

// kUnsupported says why there is none, as OpenCuda does; else what the driver says (cuda/driver.h). A driver whose GPU
// is sick may never answer. Thread rule: any thread.
Result<GpuSurvey> SurveyGpus(const CudaOptions& options = {});

}  // namespace rondo
