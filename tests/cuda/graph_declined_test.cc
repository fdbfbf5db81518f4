// Operations in graphs, when the GPU of one rank cannot run them: all ranks get an error, and nothing else is affected.
// These tests run only with the fake GPU, because a real one cannot be configured in this way.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "cuda/peers.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/graph_ranks.h"

namespace rondo::cuda {
namespace graph_declined_test {

TEST_CASE("If one rank's memory cannot be exported, the capture is refused on all ranks, and the next one succeeds") {
  const FakeDriver fake;
  OnGraphRanks(3, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    CHECK(TextOf(communicator.Barrier()) == "ok");
    if (communicator.rank() == 0) fake.FailCall("IpcGetMemHandle", 1, CUDA_ERROR_INVALID_VALUE);
    CHECK(TextOf(communicator.Barrier()) == "ok");
    const Graph nothing(gpu, stream, [&] {
      const Status status = communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream));
      REQUIRE(!status);
      CAPTURE(TextOf(status));
      CHECK(status.error().code() == ErrorCode::kUnsupported);
      CHECK(TextOf(status).find("not all ranks' devices reach the others' memory") != std::string::npos);
    });
    nothing.Launch();
    const Graph sum = GraphOfSum(communicator, gpu, memory, On(stream));
    sum.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == std::vector<unsigned char>(1000, 3));
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("Where GPUs serve a display, which ends kernels that wait for long, captures are refused and calls are not") {
  const FakeDriver fake;
  fake.SetDisplay(true);
  OnGraphRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    const Graph nothing(gpu, stream, [&] {
      const Status status = communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream));
      REQUIRE(!status);
      CAPTURE(TextOf(status));
      CHECK(status.error().code() == ErrorCode::kUnsupported);
    });
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream))) == "ok");
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == std::vector<unsigned char>(1000, 2));
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("Kernels for which the driver is too old are unsupported, and the error names what they need") {
  const FakeDriver fake;
  fake.SetVersion(CUDA_VERSION - 1000);
  const auto driver = LoadDriver(LibraryUnderTest());
  REQUIRE(driver.has_value());
  const auto gpu = Gpu::Open(*driver, 0);
  REQUIRE(gpu.has_value());
  fake.FailCall("ModuleLoadData", 1, CUDA_ERROR_INVALID_IMAGE);
  const auto peers = Peers::Make(*gpu);
  REQUIRE(!peers);
  CAPTURE(peers.error().ToString());
  CHECK(peers.error().code() == ErrorCode::kUnsupported);
  CHECK(peers.error().message().find(fmt::format("need the driver of CUDA {}.0", CUDA_VERSION / 1000)) !=
        std::string::npos);
}

}  // namespace graph_declined_test
}  // namespace rondo::cuda
