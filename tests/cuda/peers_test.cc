// A GPU that works on its own memory and on memory of other ranks, in this process and in another one.
#include "cuda/peers.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "cuda/queue.h"
#include "tests/cuda/on_gpu.h"
#include "tests/cuda/other_process.h"

namespace rondo::cuda {
namespace peers_test {

using Floats = std::vector<float>;
constexpr bool kMayNotWait = false, kMayWait = true;

std::unique_ptr<Peers> PeersOf(const OnGpu& gpu) {
  auto peers = Peers::Make(gpu.gpu());
  INFO((peers ? std::string() : peers.error().ToString()));
  REQUIRE(peers.has_value());
  return *std::move(peers);
}

std::byte* Holding(OnGpu& gpu, const Floats& values) {
  std::byte* const memory = gpu.Allocate(values.size() * sizeof(float));
  gpu.Write(memory, values.data(), values.size() * sizeof(float));
  return memory;
}

void WaitFor(Peers& peers) {
  while (true) {
    const auto ended = peers.Ended();
    REQUIRE(ended.has_value());
    if (*ended == peers.begun()) return;
    std::this_thread::yield();
  }
}

TEST_CASE("Exported memory is opened by another rank of the process, at any offset in its allocation") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto one = PeersOf(*gpu), other = PeersOf(*gpu);
  std::byte* const memory = Holding(*gpu, {1, 2, 3, 4});
  for (const std::size_t offset : {0u, 4u, 12u}) {
    const auto handle = one->Export(memory + offset, 4);
    REQUIRE(handle.has_value());
    CHECK(other->Open(*handle, kMayNotWait).value() == memory + offset);
  }
  CHECK(one->Export(nullptr, 0).has_value());  // zero bytes need no memory, so nothing is exported
}

// The number of exported allocations. It is larger than the number that Peers keeps open at the same time.
constexpr std::size_t kExported = Peers::kMaxOpened + 6;
constexpr std::size_t kExportedBytes = 3000;

TEST_CASE("child: exports memory" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  REQUIRE(gpu != nullptr);
  const auto peers = PeersOf(*gpu);
  CUstream stream = gpu->NewStream();
  for (std::size_t i = 0; i < kExported; ++i) {
    std::byte* const memory = gpu->Allocate(kExportedBytes);
    gpu->PutFill(stream, memory, static_cast<unsigned char>(i), kExportedBytes);
    gpu->Synchronize(stream);
    const auto handle = peers->Export(memory + 8, kExportedBytes - 8);
    REQUIRE(handle.has_value());
    line.Send(*handle);
  }
  line.Receive<char>();  // waits until the other process has read everything
}

TEST_CASE("Memory of another process is read directly, and the least recently used memory is closed") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: exports memory");
  const auto peers = PeersOf(*gpu);
  std::vector<DevicePeers::MemoryHandle> handles;
  for (std::size_t i = 0; i < kExported; ++i) handles.push_back(other.line.Receive<DevicePeers::MemoryHandle>());
  constexpr std::size_t kBytes = kExportedBytes - 8;
  std::byte* const own = gpu->Allocate(kBytes);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kExported; ++i) {
      const auto found = peers->Open(handles[i], kMayNotWait);
      REQUIRE(found.has_value());
      REQUIRE(peers->CopyWithin(own, *found, kBytes).has_value());
      WaitFor(*peers);
      CHECK(gpu->Values<unsigned char>(own, kBytes) ==
            std::vector<unsigned char>(kBytes, static_cast<unsigned char>(i)));
    }
    CHECK(peers->opened() == kExported);
    peers->CloseUnwanted();
    CHECK(peers->opened() == Peers::kMaxOpened);
  }
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("child: sends the GPU that time-slices it" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  REQUIRE(gpu != nullptr);
  line.Send(PeersOf(*gpu)->time_sliced_gpu());
}

TEST_CASE("Processes on a GPU without MPS are time-sliced, and ranks of one process are not") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: sends the GPU that time-slices it");
  const auto one = PeersOf(*gpu), two = PeersOf(*gpu);
  CHECK(!IsTimeSliced(one->time_sliced_gpu(), two->time_sliced_gpu()));
  CHECK(IsTimeSliced(one->time_sliced_gpu(), other.line.Receive<DevicePeers::TimeSlicedGpu>()) ==
        gpu->gpu()->is_time_sliced());
  CHECK(other.Exit() == 0);
}

TEST_CASE("Ranks in two containers are two processes, whatever number each has there") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  if (!MayContain()) {
    MESSAGE("SKIP: two containers: this process may make no namespaces of processes");
    return;
  }
  Other one("child: sends the GPU that time-slices it", Where::kContained);
  Other other("child: sends the GPU that time-slices it", Where::kContained);
  const auto first = one.line.Receive<DevicePeers::TimeSlicedGpu>(),
             second = other.line.Receive<DevicePeers::TimeSlicedGpu>();
  CHECK(first.process[0] != second.process[0]);
  CHECK(static_cast<std::uint32_t>(first.process[0]) == 1);
  CHECK(static_cast<std::uint32_t>(second.process[0]) == 1);
  CHECK(one.Exit() == 0);
  CHECK(other.Exit() == 0);
}

constexpr std::size_t kReusedBytes = 5000;

TEST_CASE("child: frees memory and exports other memory at its address" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  REQUIRE(gpu != nullptr);
  const auto peers = PeersOf(*gpu);
  CUstream stream = gpu->NewStream();
  for (unsigned char round = 1; round <= 3; ++round) {
    CUdeviceptr memory = 0;
    {
      const Gpu::Use use(*gpu->gpu());
      gpu->Must(gpu->driver().MemAlloc(&memory, kReusedBytes), "allocating");
    }
    auto* const at = reinterpret_cast<std::byte*>(memory);
    gpu->PutFill(stream, at, round, kReusedBytes);
    gpu->Synchronize(stream);
    const auto handle = peers->Export(at, kReusedBytes);
    REQUIRE(handle.has_value());
    line.Send(*handle);
    line.Receive<char>();  // waits until the other process has read the memory
    const Gpu::Use use(*gpu->gpu());
    gpu->Must(gpu->driver().MemFree(memory), "freeing");
  }
}

// A driver does not open memory while older memory at the same addresses is still open. The older memory may belong to
// another communicator, and closing it may have to wait for an operation on a stream. So while an operation is running,
// Open must not wait until the older memory is closed.
TEST_CASE(
    "Memory at the address of freed memory that is still open is opened if the call may wait or the old is closed") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: frees memory and exports other memory at its address");
  const auto first = PeersOf(*gpu), second = PeersOf(*gpu);
  std::byte* const own = gpu->Allocate(kReusedBytes);
  const auto open = [&](Peers& peers, const DevicePeers::MemoryHandle& handle, unsigned char round, bool may_wait) {
    const auto found = peers.Open(handle, may_wait);
    REQUIRE_MESSAGE(found.has_value(), found.error().ToString());
    REQUIRE(peers.CopyWithin(own, *found, kReusedBytes).has_value());
    WaitFor(peers);
    CHECK(gpu->Values<unsigned char>(own, kReusedBytes) == std::vector<unsigned char>(kReusedBytes, round));
  };
  const auto handle1 = other.line.Receive<DevicePeers::MemoryHandle>();
  open(*first, handle1, 1, kMayNotWait);
  other.line.Send('.');

  const auto handle2 = other.line.Receive<DevicePeers::MemoryHandle>();
  for (Peers* const peers : {first.get(), second.get()}) {
    const auto refused = peers->Open(handle2, kMayNotWait);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code() == ErrorCode::kUnsupported);
  }
  second->CloseUnwanted();
  open(*second, handle2, 2, kMayNotWait);
  open(*first, handle2, 2, kMayNotWait);
  other.line.Send('.');

  const auto handle3 = other.line.Receive<DevicePeers::MemoryHandle>();
  open(*first, handle3, 3, kMayWait);
  open(*second, handle3, 3, kMayNotWait);
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("Freed memory is closed while idle, but not while a stream waits for another communicator's operation") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: frees memory and exports other memory at its address");
  const auto queue = Queue::Make(gpu->gpu(), 1).value(), busy = Queue::Make(gpu->gpu(), 1).value();
  std::string why;
  DevicePeers* const peers = queue->peers(why);
  REQUIRE_MESSAGE(peers != nullptr, why);
  CHECK(peers->Open(other.line.Receive<DevicePeers::MemoryHandle>(), kMayNotWait).has_value());
  other.line.Send('.');
  const auto handle = other.line.Receive<DevicePeers::MemoryHandle>();
  CHECK(!peers->Open(handle, kMayNotWait).has_value());
  CUstream stream = gpu->NewStream();
  REQUIRE(busy->Enter(stream, 1, true).has_value());
  queue->RunIdleCleanup();
  CHECK(!peers->Open(handle, kMayNotWait).has_value());
  busy->Leave(1);
  gpu->Synchronize(stream);
  queue->RunIdleCleanup();
  CHECK(peers->Open(handle, kMayNotWait).has_value());
  other.line.Send('.');
  other.line.Receive<DevicePeers::MemoryHandle>();
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("Memory that a graph uses stays open, however long ago its last use was") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: exports memory");
  const auto peers = PeersOf(*gpu);
  CUstream stream = gpu->NewStream();
  std::vector<DevicePeers::MemoryHandle> handles;
  for (std::size_t i = 0; i < kExported; ++i) handles.push_back(other.line.Receive<DevicePeers::MemoryHandle>());
  constexpr std::size_t kBytes = kExportedBytes - 8;
  constexpr std::size_t kInGraph = 1;  // this memory is used early, so it would be among the first to be closed
  std::byte* const own = gpu->Allocate(kBytes);
  const auto barrier_state = peers->BarrierState();
  const auto found = peers->Open(handles[kInGraph], kMayNotWait);
  REQUIRE(barrier_state.has_value());
  REQUIRE(found.has_value());
  DeviceProgram program;  // for a world of one rank, which synchronizes with no other rank
  program.barrier_states = {const_cast<std::byte*>(*barrier_state)};
  program.copies = {{own, *found, kBytes}};
  // Device memory is enough, because no code reads the report here.
  std::byte* const report = gpu->Allocate(sizeof(BarrierReport));
  gpu->PutFill(stream, report, 0, sizeof(BarrierReport));
  gpu->Synchronize(stream);
  const Graph graph(*gpu, stream, [&] {
    REQUIRE(peers->Capture(stream, program, reinterpret_cast<BarrierReport*>(report)).has_value());
  });
  for (const DevicePeers::MemoryHandle& handle : handles) REQUIRE(peers->Open(handle, kMayNotWait).has_value());
  peers->CloseUnwanted();
  CHECK(peers->opened() == Peers::kMaxOpened + 1);
  graph.Launch();
  gpu->Synchronize(stream);
  CHECK(gpu->Values<unsigned char>(own, kBytes) == std::vector<unsigned char>(kBytes, kInGraph));
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("Memory of the host is not exported") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  int host = 0;
  const auto refused = peers->Export(reinterpret_cast<const std::byte*>(&host), sizeof host);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kUnsupported);
}

TEST_CASE("Memory that extends beyond its allocation is not exported") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  constexpr std::size_t kBytes = 3000;
  std::byte* const memory = gpu->Allocate(kBytes);
  CHECK(peers->Export(memory, kBytes).has_value());
  CHECK(peers->Export(memory + 1000, kBytes - 1000).has_value());
  // A driver may report an allocation as larger than requested, by at most this number of bytes.
  constexpr std::uint64_t kBeyond = std::uint64_t{4} << 20;
  const auto refused = peers->Export(memory + 1000, kBeyond);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kUnsupported);
}

TEST_CASE("Reductions and copies take effect in their order, and are counted as they end") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  constexpr std::size_t kElements = 5000;
  std::byte* const a = Holding(*gpu, Floats(kElements, 1));
  std::byte* const b = Holding(*gpu, Floats(kElements, 2));
  std::byte* const c = Holding(*gpu, Floats(kElements, 0));
  DeviceReduce reduction{.destination = c, .count = 2, .elements = kElements, .type = DataType::kFloat32};
  reduction.operands = {a, b};
  REQUIRE(peers->Reduce(reduction).has_value());
  REQUIRE(peers->CopyWithin(a, c, kElements * sizeof(float)).has_value());
  reduction.op = ReduceOp::kAvg;
  reduction.divisor = 5;
  REQUIRE(peers->Reduce(reduction).has_value());
  CHECK(peers->begun() == 3);
  WaitFor(*peers);
  CHECK(gpu->Values<float>(a, kElements) == Floats(kElements, 3));
  CHECK(gpu->Values<float>(c, kElements) == Floats(kElements, 1));  // (3 + 2) / 5
}

TEST_CASE("After draining nothing touches any memory") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  constexpr std::size_t kBytes = 1 << 20;
  std::byte* const from = gpu->Allocate(kBytes);
  std::byte* const to = gpu->Allocate(kBytes);
  for (int i = 0; i < 10; ++i) REQUIRE(peers->CopyWithin(to, from, kBytes).has_value());
  peers->Drain();
  CHECK(peers->Ended().value() == 10);
}

}  // namespace peers_test
}  // namespace rondo::cuda
