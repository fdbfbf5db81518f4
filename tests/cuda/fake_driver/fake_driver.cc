#include "tests/cuda/fake_driver/fake_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/check.h"

namespace rondo::cuda {
namespace {

void CheckName(std::string_view function) {
#define RONDO_CUDA_NAME(name) #name,
  constexpr std::string_view kNames[] = {RONDO_CUDA_DRIVER_FUNCTIONS(RONDO_CUDA_NAME)};
#undef RONDO_CUDA_NAME
  RONDO_CHECK(std::find(std::begin(kNames), std::end(kNames), function) != std::end(kNames), "there is no {}",
              function);
}

}  // namespace

std::string FakeDriver::Path() {
  const std::string file = "tests/cuda/fake_driver/libcuda.so.1";
  const char* const folder = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (folder == nullptr || workspace == nullptr) return "bazel-bin/" + file;
  return std::string(folder) + "/" + workspace + "/" + file;
}

FakeDriver::FakeDriver(const std::string& library) {
  const std::string path = library.empty() ? Path() : library;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  RONDO_CHECK(handle != nullptr, "{}", dlerror());
  control_ = static_cast<const fake::Control*>(dlsym(handle, "fake_cuda_control"));
  RONDO_CHECK(control_ != nullptr, "{} is not the fake driver", path);
  control_->reset();
  auto driver = LoadDriver(path);
  RONDO_CHECK(driver.has_value(), "{}", driver.error().message());
  driver_ = *driver;
}

void FakeDriver::Step(CUstream stream) const {
  const std::uint64_t before = Pending(stream);
  RONDO_CHECK(before > 0, "the stream has nothing to do");
  control_->step(stream);
  while (Pending(stream) >= before) std::this_thread::yield();
}

void FakeDriver::FailCall(const std::string& function, std::uint64_t nth, CUresult result) const {
  CheckName(function);
  control_->fail_call(function.c_str(), nth, result);
}

std::uint64_t FakeDriver::Calls(const std::string& function) const {
  CheckName(function);
  return control_->calls(function.c_str());
}

std::vector<std::byte> FakeDriver::ReadDevice(CUdeviceptr from, std::size_t bytes) const {
  std::vector<std::byte> read(bytes);
  RONDO_CHECK(control_->read(from, read.data(), bytes), "{} bytes at {:#x} are not a device's", bytes, from);
  return read;
}

void FakeDriver::WriteDevice(CUdeviceptr to, Bytes bytes) const {
  RONDO_CHECK(control_->write(to, bytes.data(), bytes.size()), "{} bytes at {:#x} are not a device's", bytes.size(),
              to);
}

}  // namespace rondo::cuda
