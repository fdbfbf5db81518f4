#include "tests/cuda/on_gpu.h"

#include <cstdio>

namespace rondo::cuda {

std::unique_ptr<OnGpu> OnGpu::Find() {
  static const Result<Driver> driver = LoadDriver(LibraryUnderTest());
  if (!driver) {
    if (!GpuMayBeMissing()) FAIL(driver.error().message());
    static const void* said_in = nullptr;  // a test case may call Find several times, but the reason is printed once
    const void* const test_case = doctest::getContextOptions()->currentTest;
    if (said_in != test_case) std::printf("SKIP: tests on a GPU: %s\n", driver.error().message().c_str());
    said_in = test_case;
    return nullptr;
  }
  auto gpu = Gpu::Open(*driver, 0);
  REQUIRE(gpu.has_value());
  return std::unique_ptr<OnGpu>(new OnGpu(*std::move(gpu)));
}

OnGpu::~OnGpu() {
  const Gpu::Use use(*gpu_);
  for (CUstream stream : streams_) {
    driver().StreamSynchronize(stream);
    driver().StreamDestroy(stream);
  }
  for (const CUdeviceptr memory : memory_) driver().MemFree(memory);
}

}  // namespace rondo::cuda
