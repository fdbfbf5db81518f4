// Several GPUs: which GPU an operation uses, and ranks whose GPUs cannot reach each other's memory.
#include <doctest/doctest.h>

#include <string>

#include "cuda/cuda.h"
#include "cuda/peers.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/other_process.h"

namespace rondo::cuda {
namespace gpus_test {

TEST_CASE("An operation without memory is of the GPU whose its stream is, or else of the one that the thread uses") {
  const FakeDriver fake;
  fake.SetDevices(2);
  const Driver driver = LoadDriver(LibraryUnderTest()).value();
  const auto devices = OpenCuda({.driver = LibraryUnderTest()}).value();
  const auto gpu = Gpu::Open(driver, 1).value();
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  const auto name_of = [&](const void* at, CUstream on) {
    return std::string(devices->Open(at, on, 1).value()->name());
  };
  {
    const Gpu::Use use(*gpu);
    REQUIRE(driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    REQUIRE(driver.MemAlloc(&memory, 100) == CUDA_SUCCESS);
    CHECK(name_of(nullptr, nullptr) == gpu->name());
  }
  CHECK(name_of(nullptr, stream) == gpu->name());
  CHECK(name_of(nullptr, nullptr) == "GPU 0 (Fake GPU)");
  CHECK(name_of(reinterpret_cast<const void*>(memory), nullptr) == gpu->name());
  const Gpu::Use use(*gpu);
  driver.MemFree(memory);
  driver.StreamDestroy(stream);
}

TEST_CASE("Kernels are loaded once for all communicators on a GPU") {
  const FakeDriver fake;
  const auto gpu = OnGpu::Find();
  auto one = Peers::Make(gpu->gpu()).value(), other = Peers::Make(gpu->gpu()).value();
  CHECK(fake.Calls("ModuleLoadData") == 1);
  one.reset();
  CHECK(fake.Calls("ModuleUnload") == 0);
  other.reset();
  CHECK(fake.Calls("ModuleUnload") == 1);
  CHECK(Peers::Make(gpu->gpu()).has_value());
  CHECK(fake.Calls("ModuleLoadData") == 2);
}

TEST_CASE("child: exports two allocations" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  const auto peers = Peers::Make(gpu->gpu()).value();
  for (int i = 0; i < 2; ++i) line.Send(peers->Export(gpu->Allocate(100), 100).value());
  line.Receive<char>();
}

TEST_CASE("After a process's GPU was found unreachable, the driver is not asked again") {
  const FakeDriver fake;
  const auto gpu = OnGpu::Find();
  Other other("child: exports two allocations");
  const auto first = other.line.Receive<DevicePeers::MemoryHandle>(),
             second = other.line.Receive<DevicePeers::MemoryHandle>();
  const auto one = Peers::Make(gpu->gpu()).value(), two = Peers::Make(gpu->gpu()).value();
  fake.FailCall("IpcOpenMemHandle", 1, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  for (Peers* const peers : {one.get(), two.get()})
    for (const DevicePeers::MemoryHandle& handle : {first, second}) {
      const auto refused = peers->Open(handle, false);
      REQUIRE(!refused.has_value());
      CHECK(refused.error().code() == ErrorCode::kUnsupported);
      CHECK(refused.error().message().find("PEER_ACCESS_UNSUPPORTED") != std::string::npos);
    }
  CHECK(fake.Calls("IpcOpenMemHandle") == 1);
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("Memory that could not be opened for another reason is opened again") {
  const FakeDriver fake;
  const auto gpu = OnGpu::Find();
  Other other("child: exports two allocations");
  const auto first = other.line.Receive<DevicePeers::MemoryHandle>(),
             second = other.line.Receive<DevicePeers::MemoryHandle>();
  const auto peers = Peers::Make(gpu->gpu()).value();
  fake.FailCall("IpcOpenMemHandle", 1, CUDA_ERROR_MAP_FAILED);
  CHECK(!peers->Open(first, false).has_value());
  CHECK(peers->Open(first, false).has_value());
  CHECK(peers->Open(second, false).has_value());
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

}  // namespace gpus_test
}  // namespace rondo::cuda
