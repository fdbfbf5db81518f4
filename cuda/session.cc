#include "cuda/session.h"

#include <fmt/core.h>

#include <utility>

#include "cuda/gpu.h"
#include "cuda/pinned.h"

namespace rondo {
namespace cuda {
namespace {

class OwnMemory final : public CudaMemory {
 public:
  OwnMemory(std::shared_ptr<const Gpu> gpu, CUdeviceptr address) : gpu_(std::move(gpu)), address_(address) {}
  ~OwnMemory() override {
    const Gpu::Use use(*gpu_);
    gpu_->driver().MemFree(address_);
  }
  std::byte* address() const override { return reinterpret_cast<std::byte*>(address_); }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const CUdeviceptr address_;
};

class OwnGraph final : public CudaGraph {
 public:
  OwnGraph(std::shared_ptr<const Gpu> gpu, CUstream stream, CUgraphExec graph)
      : gpu_(std::move(gpu)), stream_(stream), graph_(graph) {}
  ~OwnGraph() override {
    const Gpu::Use use(*gpu_);
    gpu_->driver().GraphExecDestroy(graph_);
  }
  Status Launch() override {
    const Gpu::Use use(*gpu_);
    return gpu_->driver().Check(gpu_->driver().GraphLaunch(graph_, stream_), "launching a graph");
  }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  CUstream stream_;
  CUgraphExec graph_;
};

class Session final : public CudaSession {
 public:
  explicit Session(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  ~Session() override {
    const Gpu::Use use(*gpu_);
    if (stream_ != nullptr) driver_.StreamDestroy(stream_);
    for (CUevent event : {begin_, end_})
      if (event != nullptr) driver_.EventDestroy(event);
  }
  Status Prepare() {
    const Gpu::Use use(*gpu_);
    RONDO_TRY(
        driver_.Check(driver_.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), "creating a stream"));
    for (CUevent* event : {&begin_, &end_})
      RONDO_TRY(driver_.Check(driver_.EventCreate(event, CU_EVENT_DEFAULT), "creating an event"));
    return {};
  }

  const std::string& gpu() const override { return gpu_->name(); }
  DeviceStream stream() const override { return stream_; }
  Result<std::unique_ptr<CudaMemory>> Allocate(std::size_t bytes) override {
    const Gpu::Use use(*gpu_);
    CUdeviceptr address = 0;
    RONDO_TRY(driver_.Check(driver_.MemAlloc(&address, bytes),
                            fmt::format("allocating {} bytes on {}", bytes, gpu_->name())));
    return std::make_unique<OwnMemory>(gpu_, address);
  }
  Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) override { return cuda::Pin(gpu_, memory); }
  Status Write(std::byte* device, Bytes from) override {
    if (from.empty()) return {};
    const Gpu::Use use(*gpu_);
    RONDO_TRY(driver_.Check(driver_.MemcpyHtoDAsync(AddressOf(device), from.data(), from.size(), stream_), "writing"));
    return Synchronize("writing");
  }
  Status Read(MutableBytes to, const std::byte* device) override {
    if (to.empty()) return {};
    const Gpu::Use use(*gpu_);
    RONDO_TRY(driver_.Check(driver_.MemcpyDtoHAsync(to.data(), AddressOf(device), to.size(), stream_), "reading"));
    return Synchronize("reading");
  }
  Status BeginCapture() override {
    const Gpu::Use use(*gpu_);
    return driver_.Check(driver_.StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "beginning a capture");
  }
  Result<std::unique_ptr<CudaGraph>> EndCapture() override {
    const Gpu::Use use(*gpu_);
    CUgraph graph = nullptr;
    RONDO_TRY(driver_.Check(driver_.StreamEndCapture(stream_, &graph), "ending a capture"));
    CUgraphExec executable = nullptr;
    const Status made = driver_.Check(driver_.GraphInstantiate(&executable, graph, 0), "creating a graph");
    driver_.GraphDestroy(graph);
    if (!made) return Fail(made.error());
    return std::make_unique<OwnGraph>(gpu_, stream_, executable);
  }
  Status Begin() override { return Record(begin_); }
  Status End() override { return Record(end_); }
  Result<double> TookUs() override {
    const Gpu::Use use(*gpu_);
    RONDO_TRY(driver_.Check(driver_.EventSynchronize(end_), "waiting for the stream"));
    float milliseconds = 0;
    RONDO_TRY(
        driver_.Check(driver_.EventElapsedTime(&milliseconds, begin_, end_), "measuring the time between two events"));
    return 1000.0 * static_cast<double>(milliseconds);
  }

 private:
  Status Synchronize(const char* doing) { return driver_.Check(driver_.StreamSynchronize(stream_), doing); }
  Status Record(CUevent event) {
    const Gpu::Use use(*gpu_);
    return driver_.Check(driver_.EventRecord(event, stream_), "recording an event");
  }

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<CudaSession>> OpenCudaSession(int nth, const CudaOptions& options) {
  RONDO_ASSIGN(const cuda::Driver driver, cuda::LoadDriver(options.driver));
  int devices = 0;
  RONDO_TRY(driver.Check(driver.DeviceGetCount(&devices), "counting the GPUs"));
  RONDO_ASSIGN(auto gpu, cuda::Gpu::Open(driver, nth % devices));
  auto session = std::make_unique<cuda::Session>(std::move(gpu));
  RONDO_TRY(session->Prepare());
  return session;
}

}  // namespace rondo
