#include "cuda/survey.h"

#include <fmt/core.h>

#include <utility>

#include "cuda/driver.h"
#include "cuda/gpu.h"

namespace rondo {
namespace {

using Access = SurveyedGpu::Access;

Access AccessBy(int compute_mode) {
  switch (compute_mode) {
    case CU_COMPUTEMODE_PROHIBITED: return Access::kProhibited;
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS: return Access::kOneProcess;
    default: return Access::kShared;
  }
}

}  // namespace

bool BuiltWithCuda() { return true; }

Result<GpuSurvey> SurveyGpus(const CudaOptions& options) {
  RONDO_ASSIGN(const cuda::Driver driver, cuda::LoadDriver(options.driver));
  int count = 0;
  RONDO_TRY(driver.Check(driver.DeviceGetCount(&count), "counting the GPUs"));
  GpuSurvey survey{.driver_version = driver.version, .gpus = {}};
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string what = fmt::format("getting the properties of GPU {}", ordinal);
    CUdevice device = 0;
    RONDO_TRY(driver.Check(driver.DeviceGet(&device, ordinal), what));
    SurveyedGpu gpu;
    RONDO_ASSIGN(gpu.name, cuda::NameOf(driver, ordinal, device));
    char address[32] = "";
    RONDO_TRY(driver.Check(driver.DeviceGetPCIBusId(address, sizeof address, device), what));
    gpu.pci_address = address;
    int compute_mode = 0;
    RONDO_TRY(driver.Check(driver.DeviceGetAttribute(&compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device), what));
    gpu.access = AccessBy(compute_mode);
    int mps = 0;
    if (driver.DeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) == CUDA_SUCCESS) gpu.mps = mps != 0;
    survey.gpus.push_back(std::move(gpu));
  }
  return survey;
}

}  // namespace rondo
