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

TEST_CASE("Memory that is shown is found, within its allocation, by another rank of the process") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto one = PeersOf(*gpu), other = PeersOf(*gpu);
  std::byte* const memory = Holding(*gpu, {1, 2, 3, 4});
  for (const std::size_t offset : {0u, 4u, 12u}) {
    const auto place = one->Show(memory + offset, 4);
    REQUIRE(place.has_value());
    CHECK(other->Find(*place, kMayNotWait).value() == memory + offset);
  }
  CHECK(one->Show(nullptr, 0).has_value());  // zero bytes need no memory, so nothing is exported
}

// More memory than stays open at once.
constexpr std::size_t kShown = Peers::kMostOpened + 6;
constexpr std::size_t kShownBytes = 3000;

TEST_CASE("child: shows memory" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  REQUIRE(gpu != nullptr);
  const auto peers = PeersOf(*gpu);
  CUstream stream = gpu->NewStream();
  for (std::size_t i = 0; i < kShown; ++i) {
    std::byte* const memory = gpu->Allocate(kShownBytes);
    gpu->PutFill(stream, memory, static_cast<unsigned char>(i), kShownBytes);
    gpu->Synchronize(stream);
    const auto place = peers->Show(memory + 8, kShownBytes - 8);
    REQUIRE(place.has_value());
    line.Send(*place);
  }
  line.Receive<char>();  // until the other process has read everything
}

TEST_CASE("Memory of another process is read where it lies, and what was not wanted for long is closed") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: shows memory");
  const auto peers = PeersOf(*gpu);
  std::vector<DevicePeers::Place> places;
  for (std::size_t i = 0; i < kShown; ++i) places.push_back(other.line.Receive<DevicePeers::Place>());
  constexpr std::size_t kBytes = kShownBytes - 8;
  std::byte* const own = gpu->Allocate(kBytes);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < kShown; ++i) {
      const auto found = peers->Find(places[i], kMayNotWait);
      REQUIRE(found.has_value());
      REQUIRE(peers->CopyWithin(own, *found, kBytes).has_value());
      WaitFor(*peers);
      CHECK(gpu->Values<unsigned char>(own, kBytes) ==
            std::vector<unsigned char>(kBytes, static_cast<unsigned char>(i)));
    }
    CHECK(peers->opened() == kShown);
    peers->CloseUnwanted();
    CHECK(peers->opened() == Peers::kMostOpened);
  }
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("child: says by what it is served" * doctest::skip()) {
  const Line line(SocketOfChild());
  const auto gpu = OnGpu::Find();
  REQUIRE(gpu != nullptr);
  line.Send(PeersOf(*gpu)->server());
}

TEST_CASE("Processes take turns on a GPU that serves them one at a time, and ranks of one process do not") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: says by what it is served");
  const auto one = PeersOf(*gpu), two = PeersOf(*gpu);
  CHECK(!TakeTurns(one->server(), two->server()));
  CHECK(TakeTurns(one->server(), other.line.Receive<DevicePeers::Server>()) == gpu->gpu()->takes_turns());
  CHECK(other.Exit() == 0);
}

TEST_CASE("Ranks in two containers are two processes, whatever number each has there") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  if (!MayContain()) {
    MESSAGE("SKIP: two containers: this process may make no namespaces of processes");
    return;
  }
  Other one("child: says by what it is served", Where::kContained);
  Other other("child: says by what it is served", Where::kContained);
  const auto first = one.line.Receive<DevicePeers::Server>(), second = other.line.Receive<DevicePeers::Server>();
  CHECK(first.process[0] != second.process[0]);
  CHECK(static_cast<std::uint32_t>(first.process[0]) == 1);
  CHECK(static_cast<std::uint32_t>(second.process[0]) == 1);
  CHECK(one.Exit() == 0);
  CHECK(other.Exit() == 0);
}

constexpr std::size_t kReusedBytes = 5000;

TEST_CASE("child: frees memory and shows what it gets in its place" * doctest::skip()) {
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
    const auto place = peers->Show(at, kReusedBytes);
    REQUIRE(place.has_value());
    line.Send(*place);
    line.Receive<char>();  // the other process has read it
    const Gpu::Use use(*gpu->gpu());
    gpu->Must(gpu->driver().MemFree(memory), "freeing");
  }
}

// A driver does not open memory while older memory of the same addresses is still open. The older memory may belong to
// another communicator, and closing it may last until an operation on a stream ends. So an operation that is still
// running must not wait for that.
TEST_CASE(
    "Memory of another process is found where freed memory is open still, when that may be waited for or has been") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: frees memory and shows what it gets in its place");
  const auto first = PeersOf(*gpu), second = PeersOf(*gpu);
  std::byte* const own = gpu->Allocate(kReusedBytes);
  const auto find = [&](Peers& peers, const DevicePeers::Place& place, unsigned char round, bool may_wait) {
    const auto found = peers.Find(place, may_wait);
    REQUIRE_MESSAGE(found.has_value(), found.error().ToString());
    REQUIRE(peers.CopyWithin(own, *found, kReusedBytes).has_value());
    WaitFor(peers);
    CHECK(gpu->Values<unsigned char>(own, kReusedBytes) == std::vector<unsigned char>(kReusedBytes, round));
  };
  const auto place1 = other.line.Receive<DevicePeers::Place>();
  find(*first, place1, 1, kMayNotWait);
  other.line.Send('.');

  const auto place2 = other.line.Receive<DevicePeers::Place>();
  for (Peers* const peers : {first.get(), second.get()}) {
    const auto refused = peers->Find(place2, kMayNotWait);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code() == ErrorCode::kUnsupported);
  }
  second->CloseUnwanted();
  find(*second, place2, 2, kMayNotWait);
  find(*first, place2, 2, kMayNotWait);
  other.line.Send('.');

  const auto place3 = other.line.Receive<DevicePeers::Place>();
  find(*first, place3, 3, kMayWait);
  find(*second, place3, 3, kMayNotWait);
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("What was freed is closed at a rest, but not while a stream waits for another communicator's operation") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: frees memory and shows what it gets in its place");
  const auto queue = Queue::Make(gpu->gpu(), 1).value(), busy = Queue::Make(gpu->gpu(), 1).value();
  std::string why;
  DevicePeers* const peers = queue->peers(why);
  REQUIRE_MESSAGE(peers != nullptr, why);
  CHECK(peers->Find(other.line.Receive<DevicePeers::Place>(), kMayNotWait).has_value());
  other.line.Send('.');
  const auto place = other.line.Receive<DevicePeers::Place>();
  CHECK(!peers->Find(place, kMayNotWait).has_value());
  CUstream stream = gpu->NewStream();
  REQUIRE(busy->Enter(stream, 1, true).has_value());
  queue->Rest();
  CHECK(!peers->Find(place, kMayNotWait).has_value());
  busy->Leave(1);
  gpu->Synchronize(stream);
  queue->Rest();
  CHECK(peers->Find(place, kMayNotWait).has_value());
  other.line.Send('.');
  other.line.Receive<DevicePeers::Place>();
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("What a graph uses stays open, however long nobody has wanted it") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  Other other("child: shows memory");
  const auto peers = PeersOf(*gpu);
  CUstream stream = gpu->NewStream();
  std::vector<DevicePeers::Place> places;
  for (std::size_t i = 0; i < kShown; ++i) places.push_back(other.line.Receive<DevicePeers::Place>());
  constexpr std::size_t kBytes = kShownBytes - 8;
  constexpr std::size_t kInGraph = 1;  // used among the first, and so the first that would be closed
  std::byte* const own = gpu->Allocate(kBytes);
  const auto meeting_place = peers->MeetingPlace();
  const auto found = peers->Find(places[kInGraph], kMayNotWait);
  REQUIRE(meeting_place.has_value());
  REQUIRE(found.has_value());
  DeviceProgram program;  // for a world of one rank, which synchronizes with no other rank
  program.places = {const_cast<std::byte*>(*meeting_place)};
  program.copies = {{own, *found, kBytes}};
  // Device memory will do: no code reads the report here.
  std::byte* const report = gpu->Allocate(sizeof(MeetingReport));
  gpu->PutFill(stream, report, 0, sizeof(MeetingReport));
  gpu->Synchronize(stream);
  const Graph graph(*gpu, stream, [&] {
    REQUIRE(peers->Capture(stream, program, reinterpret_cast<MeetingReport*>(report)).has_value());
  });
  for (const DevicePeers::Place& place : places) REQUIRE(peers->Find(place, kMayNotWait).has_value());
  peers->CloseUnwanted();
  CHECK(peers->opened() == Peers::kMostOpened + 1);
  graph.Launch();
  gpu->Synchronize(stream);
  CHECK(gpu->Values<unsigned char>(own, kBytes) == std::vector<unsigned char>(kBytes, kInGraph));
  other.line.Send('.');
  CHECK(other.Exit() == 0);
}

TEST_CASE("Memory of the host is not shown") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  int host = 0;
  const auto refused = peers->Show(reinterpret_cast<const std::byte*>(&host), sizeof host);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kUnsupported);
}

TEST_CASE("What goes on beyond its allocation is not shown, whatever lies behind it") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  constexpr std::size_t kBytes = 3000;
  std::byte* const memory = gpu->Allocate(kBytes);
  CHECK(peers->Show(memory, kBytes).has_value());
  CHECK(peers->Show(memory + 1000, kBytes - 1000).has_value());
  // A driver may report an allocation as larger than requested, by at most this number of bytes.
  constexpr std::uint64_t kBeyond = std::uint64_t{4} << 20;
  const auto refused = peers->Show(memory + 1000, kBeyond);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kUnsupported);
}

TEST_CASE("Folds and copies take effect in their order, and are counted as they end") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto peers = PeersOf(*gpu);
  constexpr std::size_t kElements = 5000;
  std::byte* const a = Holding(*gpu, Floats(kElements, 1));
  std::byte* const b = Holding(*gpu, Floats(kElements, 2));
  std::byte* const c = Holding(*gpu, Floats(kElements, 0));
  DeviceFold fold{.destination = c, .count = 2, .elements = kElements, .type = DataType::kFloat32};
  fold.operands = {a, b};
  REQUIRE(peers->Fold(fold).has_value());
  REQUIRE(peers->CopyWithin(a, c, kElements * sizeof(float)).has_value());
  fold.op = ReduceOp::kAvg;
  fold.divisor = 5;
  REQUIRE(peers->Fold(fold).has_value());
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
