// Communicators with memory of a GPU, by host staging. Several ranks share one GPU; each rank has its own streams.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/kernels/image.h"
#include "cuda/kernels/reduce.h"
#include "tests/communicator/plain.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/ranks.h"

namespace rondo::cuda {
namespace communicator_test {

void OnGpuRanks(int world, const std::function<void(Communicator&, OnGpu&, CUstream)>& body) {
  if (OnGpu::Find() == nullptr) return;
  InprocNetwork network(world, {});
  OnRanks(
      network,
      [&](Communicator& communicator) {
        const auto gpu = OnGpu::Find();
        body(communicator, *gpu, gpu->NewStream());
      },
      [](CommunicatorOptions& options) {
        auto devices = OpenCuda({.driver = LibraryUnderTest()});
        REQUIRE(devices.has_value());
        options.device = *std::move(devices);
        options.device_window_bytes = 64 << 10;
      });
}

TEST_CASE("Every collective, in place or not, in one window and in several") {
  for (const int world : {1, 2, 4}) {
    OnGpuRanks(world, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                          Collective::kAllGather, Collective::kGather, Collective::kScatter,
                                          Collective::kReduceScatter, Collective::kAllToAll, Collective::kBarrier})
        for (const bool in_place : {false, true})
          for (const std::uint64_t count : {0u, 3u, 20'001u}) {
            const Rank rank = communicator.rank();
            const int world_size = communicator.world_size();
            plain::Case c;
            c.collective = collective;
            c.in_place = in_place;
            c.root = world_size - 1;
            c.counts.assign(static_cast<std::size_t>(world_size), count);
            CAPTURE(plain::Describe(c));
            plain::Buffers host(c, rank, world_size);
            const auto bytes = [](const plain::Values& values) { return values.size() * sizeof(std::int64_t); };
            std::byte* const output = gpu.Allocate(bytes(host.output) + 8);
            std::byte* const input = host.one ? output : gpu.Allocate(bytes(host.input) + 8);
            gpu.Write(output, host.output.data(), bytes(host.output));
            if (!host.one) gpu.Write(input, host.input.data(), bytes(host.input));
            const Work work =
                plain::Issue(communicator, c, input + host.input_at * 8, output + host.output_at * 8, DataType::kInt64,
                             ReduceOp::kSum, {.memory = MemoryKind::kDevice, .stream = stream});
            INFO((work.refused() ? work.refused()->ToString() : std::string()));
            REQUIRE(!work.refused());
            gpu.Synchronize(stream);  // no thread has waited for the operation, but the stream waits for it
            gpu.Read(host.output.data(), output, bytes(host.output));
            CHECK(host.Wrong(c, rank, world_size) == "");
          }
    });
  }
}

TEST_CASE("Operations take their places among the work on a stream") {
  OnGpuRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    constexpr std::size_t kBytes = 300'000;
    std::byte* const memory = gpu.Allocate(kBytes);
    std::byte* const copy = gpu.Allocate(kBytes);
    const OperationOptions options{.memory = MemoryKind::kDevice, .stream = stream};
    // The first operation pins memory. A driver may wait for all pending work of the GPU before it pins memory.
    CHECK(TextOf(communicator.AllReduce(memory, memory, kBytes, DataType::kUint8, ReduceOp::kSum, options)) == "ok");
    std::atomic<bool> latch{false};
    gpu.Put(stream, latch);
    gpu.PutFill(stream, memory, static_cast<unsigned char>(communicator.rank() + 1), kBytes);
    Work first = communicator.AllReduceAsync(memory, memory, kBytes, DataType::kUint8, ReduceOp::kSum, options);
    {
      const Gpu::Use use(*gpu.gpu());
      gpu.Must(gpu.driver().MemcpyDtoDAsync(OnGpu::AddressOf(copy), OnGpu::AddressOf(memory), kBytes, stream),
               "copying");
    }
    gpu.PutFill(stream, memory, 10, kBytes);
    Work second = communicator.AllReduceAsync(memory, memory, kBytes, DataType::kUint8, ReduceOp::kSum, options);
    CHECK(!first.Test().has_value());
    latch = true;
    CHECK(TextOf(second.Wait()) == "ok");
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(copy, kBytes) == std::vector<unsigned char>(kBytes, 3));
    CHECK(gpu.Values<unsigned char>(memory, kBytes) == std::vector<unsigned char>(kBytes, 20));
  });
}

// A kernel of this program that no code has launched yet. Drivers load a kernel at its first launch. Before they do,
// they may wait for all pending work and block all other calls.
class NewKernel {
 public:
  explicit NewKernel(const OnGpu& gpu) : gpu_(gpu) {
    const Gpu::Use use(*gpu_.gpu());
    gpu_.Must(gpu_.driver().ModuleLoadData(&module_, rondo_cuda_image), "loading a module");
    gpu_.Must(gpu_.driver().ModuleGetFunction(&function_, module_, "rondo_device_reduce_uint8_max"),
              "finding a kernel");
  }
  ~NewKernel() {
    const Gpu::Use use(*gpu_.gpu());
    gpu_.driver().ModuleUnload(module_);
  }
  NewKernel(const NewKernel&) = delete;
  NewKernel& operator=(const NewKernel&) = delete;

  void Launch(CUstream stream, std::byte* memory) const {
    const Gpu::Use use(*gpu_.gpu());
    ReduceArguments arguments;
    arguments.destination = memory;
    arguments.elements = 1;
    arguments.count = 1;
    arguments.sources[0] = memory;
    void* parameters[] = {&arguments};
    gpu_.Must(gpu_.driver().LaunchKernel(function_, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr), "launching");
  }

 private:
  const OnGpu& gpu_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

TEST_CASE("A kernel may be loaded while an operation is under way for which no stream waits") {
  OnGpuRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    const NewKernel kernel(gpu);
    CUstream other = gpu.NewStream();
    std::byte* const memory = gpu.Allocate(1000);
    std::byte* const beside = gpu.Allocate(1);
    gpu.PutFill(stream, memory, 5, 1000);
    OperationOptions options{.memory = MemoryKind::kDevice, .stream = stream, .stream_waits = false};
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, options)) == "ok");
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Work work = communicator.AllReduceAsync(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, options);
    kernel.Launch(other, beside);
    CHECK(TextOf(work.Wait()) == "ok");
    gpu.Synchronize(other);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == std::vector<unsigned char>(1000, 20));
  });
}

TEST_CASE("A kernel that is loaded while a stream waits for an operation may end that, at its timeout") {
  std::atomic<bool> ended_late{false};
  OnGpuRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    const NewKernel kernel(gpu);
    std::byte* const memory = gpu.Allocate(1000);
    std::byte* const beside = gpu.Allocate(1);
    OperationOptions options{.memory = MemoryKind::kDevice, .stream = stream};
    options.timeout = std::chrono::seconds(4);
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, options)) == "ok");
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Work work = communicator.AllReduceAsync(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, options);
    kernel.Launch(stream, beside);  // returns at the latest when the operation has timed out
    gpu.Synchronize(stream);
    const Status status = work.Wait();
    if (status) return;  // the driver did not wait for the operation before it loaded the kernel
    ended_late = true;
    CAPTURE(status.error().ToString());
    CHECK(status.error().code() == ErrorCode::kTimeout);
    CHECK(status.error().message().find("in time: rank") != std::string::npos);
    CHECK(status.error().message().find(
              "waits for a call that does not return; if this is a call of the driver of GPU") != std::string::npos);
  });
  if (!GpuMayBeMissing()) CHECK(ended_late);  // the fake driver waits for all streams
}

TEST_CASE("The default stream is a stream like others") {
  OnGpuRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    // Only rank 0 uses the default stream. Both ranks are in one process, which has one default stream: work on it that
    // waits for rank 0's operation would delay rank 1's operation.
    if (communicator.rank() == 0) stream = nullptr;
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 5, 1000);
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum,
                                        {.memory = MemoryKind::kDevice, .stream = stream})) == "ok");
    CHECK(gpu.Values<unsigned char>(memory, 1000) == std::vector<unsigned char>(1000, 10));
  });
}

}  // namespace communicator_test
}  // namespace rondo::cuda
