// A fake GPU that one test uses alone. Its context is current in the thread that makes it. The test fails if it does
// not release all objects.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/kernels/reduce.h"
#include "tests/cuda/fake_driver/fake_driver.h"

namespace rondo::cuda {

// doctest cannot print C enumerations, so the results are compared as integers.
#define CHECK_CUDA(call, result) CHECK(static_cast<int>(call) == static_cast<int>(result))
#define REQUIRE_CUDA(call) REQUIRE(static_cast<int>(call) == static_cast<int>(CUDA_SUCCESS))

struct FakeGpu {
  FakeGpu() {
    CUcontext context = nullptr;
    REQUIRE_CUDA(cuda.DevicePrimaryCtxRetain(&context, 0));
    REQUIRE_CUDA(cuda.CtxPushCurrent(context));
  }
  ~FakeGpu() {
    cuda.CtxPopCurrent(nullptr);
    cuda.DevicePrimaryCtxRelease(0);
    CHECK(fake.live() == fake::Live{});
  }
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  CUdeviceptr Allocate(std::size_t bytes) const {
    CUdeviceptr address = 0;
    REQUIRE_CUDA(cuda.MemAlloc(&address, bytes));
    return address;
  }
  CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream stream = nullptr;
    REQUIRE_CUDA(cuda.StreamCreateWithPriority(&stream, flags, 0));
    return stream;
  }
  CUevent NewEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) const {
    CUevent event = nullptr;
    REQUIRE_CUDA(cuda.EventCreate(&event, flags));
    return event;
  }
  CUmodule Load() const {
    CUmodule module = nullptr;
    REQUIRE_CUDA(cuda.ModuleLoadData(&module, "any image"));
    return module;
  }
  CUresult Launch(CUmodule module, const char* name, ReduceArguments arguments, CUstream stream) const {
    CUfunction function = nullptr;
    REQUIRE_CUDA(cuda.ModuleGetFunction(&function, module, name));
    int threads = 0;
    // This query makes the driver load the function.
    REQUIRE_CUDA(cuda.FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    void* parameters[] = {&arguments};
    return cuda.LaunchKernel(function, 2, 1, 1, 8, 1, 1, 0, stream, parameters, nullptr);
  }
  // The device's bytes as numbers.
  template <class T>
  std::vector<T> Read(CUdeviceptr from, std::size_t count) const {
    const auto bytes = fake.ReadDevice(from, count * sizeof(T));
    std::vector<T> read(count);
    std::memcpy(read.data(), bytes.data(), bytes.size());
    return read;
  }

  FakeDriver fake;
  const Driver& cuda = fake.driver();
};

// Memory of the host that the GPU can reach.
template <class T, std::size_t kCount>
class Pinned {
 public:
  explicit Pinned(const FakeGpu& gpu) : cuda_(gpu.cuda) {
    REQUIRE_CUDA(cuda_.MemHostRegister(values.data(), sizeof values, CU_MEMHOSTREGISTER_PORTABLE));
  }
  ~Pinned() { cuda_.MemHostUnregister(values.data()); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(values.data()); }
  alignas(8) std::array<T, kCount> values{};

 private:
  const Driver& cuda_;
};

}  // namespace rondo::cuda
