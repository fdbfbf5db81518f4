// Tests what the driver reports about GPUs that no process has opened.
#include "cuda/survey.h"

#include <doctest/doctest.h>

#include <optional>

#include "tests/cuda/fake_driver/fake_driver.h"

namespace rondo::cuda {
namespace survey_test {

using Access = SurveyedGpu::Access;

GpuSurvey Survey() {
  const auto survey = SurveyGpus({.driver = FakeDriver::Path()});
  REQUIRE(survey.has_value());
  return *survey;
}

TEST_CASE("a survey has every GPU by its name, and opens none") {
  const FakeDriver fake;
  fake.SetDevices(2);
  fake.SetVersion(12040);
  const GpuSurvey survey = Survey();
  CHECK(survey.driver_version == 12040);
  REQUIRE(survey.gpus.size() == 2);
  CHECK(survey.gpus[1].name.starts_with("GPU 1 ("));
  CHECK(survey.gpus[1].pci_address == "0000:11:00.0");
  CHECK(fake.Calls("DevicePrimaryCtxRetain") == 0);
}

TEST_CASE("a survey says how processes share a GPU") {
  const FakeDriver fake;
  CHECK(Survey().gpus.front().mps == false);
  fake.SetMps(true);
  CHECK(Survey().gpus.front().mps == true);
  fake.FailCall("DeviceGetAttribute", 2, CUDA_ERROR_INVALID_VALUE);  // an older driver without this attribute
  CHECK(Survey().gpus.front().mps == std::nullopt);
}

TEST_CASE("a survey says which processes a GPU's compute mode admits") {
  const FakeDriver fake;
  const auto access_by = [&](CUcomputemode mode) {
    fake.SetComputeMode(mode);
    return static_cast<int>(Survey().gpus.front().access);  // doctest cannot print enumerations
  };
  CHECK(access_by(CU_COMPUTEMODE_DEFAULT) == static_cast<int>(Access::kShared));
  CHECK(access_by(CU_COMPUTEMODE_EXCLUSIVE_PROCESS) == static_cast<int>(Access::kOneProcess));
  CHECK(access_by(CU_COMPUTEMODE_PROHIBITED) == static_cast<int>(Access::kProhibited));
}

TEST_CASE("without a driver or a GPU there is no survey, and it is said why") {
  const auto absent = SurveyGpus({.driver = "/no/such/libcuda.so.1"});
  REQUIRE(!absent);
  CHECK(absent.error().code() == ErrorCode::kUnsupported);
  const FakeDriver fake;
  fake.SetDevices(0);
  const auto none = SurveyGpus({.driver = FakeDriver::Path()});
  REQUIRE(!none);
  CHECK(none.error().message().find("no GPU: ") == 0);
}

}  // namespace survey_test
}  // namespace rondo::cuda
