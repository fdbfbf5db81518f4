// Tests that run on a GPU, real or fake: the same tests are linked with either. If there is no real GPU, every test
// case is skipped and says so.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver.h"
#include "cuda/gpu.h"

namespace rondo::cuda {

// The driver library that OpenCuda and LoadDriver use in this test program (fake_under_test.cc, real_under_test.cc).
std::string LibraryUnderTest();
bool GpuMayBeMissing();

// A GPU that one test case uses alone.
class OnGpu {
 public:
  // Null: there is no GPU, and the reason has been printed.
  static std::unique_ptr<OnGpu> Find();
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  const Driver& driver() const { return gpu_->driver(); }
  std::shared_ptr<const Gpu> gpu() const { return gpu_; }

  // Allocates device memory, which the destructor frees.
  std::byte* Allocate(std::size_t bytes) {
    const Gpu::Use use(*gpu_);
    CUdeviceptr memory = 0;
    Must(driver().MemAlloc(&memory, bytes), "allocating");
    memory_.push_back(memory);
    return reinterpret_cast<std::byte*>(memory);
  }
  CUstream NewStream() {
    const Gpu::Use use(*gpu_);
    CUstream stream = nullptr;
    Must(driver().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), "creating a stream");
    streams_.push_back(stream);
    return stream;
  }
  // When the stream's earlier work has ended, blocks the stream until `latch` is true.
  void Put(CUstream stream, std::atomic<bool>& latch) {
    const Gpu::Use use(*gpu_);
    const auto wait = [](void* opened) {
      while (!static_cast<std::atomic<bool>*>(opened)->load()) std::this_thread::yield();
    };
    Must(driver().LaunchHostFunc(stream, wait, &latch), "holding a stream");
  }
  void PutFill(CUstream stream, std::byte* memory, unsigned char value, std::size_t bytes) {
    const Gpu::Use use(*gpu_);
    Must(driver().MemsetD8Async(AddressOf(memory), value, bytes, stream), "filling");
  }
  // Copies on a separate stream, and waits for the copy.
  void Write(std::byte* memory, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    const Gpu::Use use(*gpu_);
    Must(driver().MemcpyHtoDAsync(AddressOf(memory), from, bytes, own_), "writing");
    Must(driver().StreamSynchronize(own_), "writing");
  }
  void Read(void* to, const std::byte* memory, std::size_t bytes) {
    if (bytes == 0) return;
    const Gpu::Use use(*gpu_);
    Must(driver().MemcpyDtoHAsync(to, AddressOf(memory), bytes, own_), "reading");
    Must(driver().StreamSynchronize(own_), "reading");
  }
  template <typename T>
  std::vector<T> Values(const std::byte* memory, std::size_t count) {
    std::vector<T> values(count);
    Read(values.data(), memory, count * sizeof(T));
    return values;
  }
  void Synchronize(CUstream stream) {
    const Gpu::Use use(*gpu_);
    Must(driver().StreamSynchronize(stream), "waiting for a stream");
  }
  bool IsIdle(CUstream stream) {
    const Gpu::Use use(*gpu_);
    return driver().StreamQuery(stream) == CUDA_SUCCESS;
  }
  void Must(CUresult result, const char* doing) const {
    const Status status = driver().Check(result, doing);
    INFO((status ? std::string() : status.error().ToString()));
    REQUIRE(status.has_value());
  }
  static CUdeviceptr AddressOf(const std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

 private:
  explicit OnGpu(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) { own_ = NewStream(); }

  const std::shared_ptr<const Gpu> gpu_;
  std::vector<CUdeviceptr> memory_;
  std::vector<CUstream> streams_;
  CUstream own_ = nullptr;
};

// A graph of the work that `body` puts on the stream. It can be launched.
class Graph {
 public:
  template <class Body>
  Graph(const OnGpu& gpu, CUstream stream, Body&& body) : gpu_(gpu), stream_(stream) {
    {
      const Gpu::Use use(*gpu_.gpu());
      gpu_.Must(Cuda().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "beginning a capture");
    }
    body();
    const Gpu::Use use(*gpu_.gpu());
    CUgraph graph = nullptr;
    gpu_.Must(Cuda().StreamEndCapture(stream, &graph), "ending a capture");
    gpu_.Must(Cuda().GraphInstantiate(&executable_, graph, 0), "creating a graph");
    gpu_.Must(Cuda().GraphDestroy(graph), "ending a graph");
  }
  ~Graph() {
    const Gpu::Use use(*gpu_.gpu());
    Cuda().GraphExecDestroy(executable_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch() const {
    const Gpu::Use use(*gpu_.gpu());
    gpu_.Must(Cuda().GraphLaunch(executable_, stream_), "launching a graph");
  }

 private:
  const Driver& Cuda() const { return gpu_.driver(); }

  const OnGpu& gpu_;
  CUstream stream_;
  CUgraphExec executable_ = nullptr;
};

}  // namespace rondo::cuda
