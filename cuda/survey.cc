#include "cuda/survey.h"

#include <fmt/core.h>

#include "cuda/driver.h"

namespace rondo {
namespace {

using Access = SurveyedGpu::Access;

Access AccessBy(int compute_mode) {
  switch (compute_mode) {
    case CU_COMPUTEMODE_PROHIBITED: return Access::kNobody;
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS: return Access::kOneProcess;
    default: return Access::kShared;
  }
}

}  // namespace

Result<GpuSurvey> SurveyGpus(const CudaOptions& options) {
  RONDO_ASSIGN(const cuda::Driver driver, cuda::LoadDriver(options.driver));
  int count = 0;
  RONDO_TRY(driver.Check(driver.DeviceGetCount(&count), "counting the GPUs"));
  GpuSurvey survey{.driver_version = driver.version, .gpus = {}};
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string what = fmt::format("looking at GPU {}", ordinal);
    CUdevice device = 0;
    RONDO_TRY(driver.Check(driver.DeviceGet(&device, ordinal), what));
    char name[128] = "";
    RONDO_TRY(driver.Check(driver.DeviceGetName(name, sizeof name, device), what));
    int compute_mode = 0;
    RONDO_TRY(driver.Check(driver.DeviceGetAttribute(&compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device), what));
    int mps = 0;  // and stays so where the driver does not know the attribute
    driver.DeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
    survey.gpus.push_back(
        {.name = fmt::format("GPU {} ({})", ordinal, name), .access = AccessBy(compute_mode), .mps = mps != 0});
  }
  return survey;
}

}  // namespace rondo
