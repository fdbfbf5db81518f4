// The fake driver for a test: loaded, with every setting as the environment gives it (control.h explains the settings).
//
//   FakeDriver fake;
//   const Driver& driver = fake.driver();
//   ...
//   CHECK(fake.live() == fake::Live{});
//
// A program that must use it needs LD_LIBRARY_PATH with the folder of libcuda.so.1; the variables for Settings are in
// state.h. A process has one fake driver, which all FakeDriver objects share. A child by fork() cannot use a driver
// that its parent loaded: it must exec.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "cuda/driver.h"
#include "tests/cuda/fake_driver/control.h"

namespace rondo::cuda {

class FakeDriver {
 public:
  // "" loads the library among this test's runfiles. If the library cannot be loaded, the process ends.
  explicit FakeDriver(const std::string& library = "");
  ~FakeDriver() { control_->reset(); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // The path at which Bazel puts the library, for LoadDriver and child processes.
  static std::string Path();

  const Driver& driver() const { return driver_; }
  const fake::Control& control() const { return *control_; }

  void Hold(CUstream stream) const { control_->hold(stream); }
  void Release(CUstream stream) const { control_->release(stream); }
  // Makes a held stream do its next piece of work, and nothing more. Returns when that work is done.
  void Step(CUstream stream) const;
  std::uint64_t Pending(CUstream stream) const { return control_->pending(stream); }
  void FailCall(const std::string& function, std::uint64_t nth, CUresult result) const;
  std::uint64_t Calls(const std::string& function) const;
  void FaultKernel(std::uint64_t nth = 1) const { control_->fault_kernel(nth); }
  void SetDelay(std::uint64_t most_us, std::uint64_t seed) const { control_->set_delay(most_us, seed); }
  void SetDevices(int count) const { control_->set_devices(count); }
  void SetMemory(std::uint64_t bytes) const { control_->set_memory(bytes); }
  void SetDmaBuf(bool supported) const { control_->set_dma_buf(supported); }
  void SetMps(bool enabled) const { control_->set_mps(enabled); }
  void SetComputeMode(CUcomputemode mode) const { control_->set_compute_mode(mode); }
  void SetIpcCapable(bool capable) const { control_->set_ipc_capable(capable); }
  void SetVersion(int version) const { control_->set_version(version); }
  void SetDisplay(bool serves) const { control_->set_display(serves); }
  void Reset() const { control_->reset(); }

  fake::Live live() const { return control_->live(); }
  fake::BytesCopied copied() const { return control_->copied(); }
  std::uint64_t kernels() const { return control_->kernels(); }

  // Read and write without waiting for any stream. If a part of the range is not device memory, the process ends.
  std::vector<std::byte> ReadDevice(CUdeviceptr from, std::size_t bytes) const;
  void WriteDevice(CUdeviceptr to, Bytes bytes) const;

 private:
  Driver driver_;
  const fake::Control* control_ = nullptr;
};

}  // namespace rondo::cuda
