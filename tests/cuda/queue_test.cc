// The contract of DeviceQueue (collectives/engine/device.h), on a GPU.
#include "cuda/queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/cuda/on_gpu.h"

namespace rondo::cuda {
namespace queue_test {

using Bytes8 = std::vector<unsigned char>;

// Memory of the host that a queue has pinned.
struct Pinned {
  Pinned(Queue& queue, std::size_t bytes) : values(bytes) {
    auto made = queue.Pin({reinterpret_cast<std::byte*>(values.data()), bytes});
    REQUIRE(made.has_value());
    pinned = *std::move(made);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(values.data()); }
  Bytes8 values;
  std::unique_ptr<PinnedMemory> pinned;
};

std::unique_ptr<Queue> QueueOf(const OnGpu& gpu, std::size_t most = 4) {
  auto queue = Queue::Make(gpu.gpu(), most);
  REQUIRE(queue.has_value());
  return *std::move(queue);
}

void WaitForCopies(Queue& queue, CopyDirection direction, std::uint64_t due) {
  while (true) {
    const auto copied = queue.Copied(direction);
    REQUIRE(copied.has_value());
    REQUIRE(*copied <= due);
    if (*copied == due) return;
    std::this_thread::yield();
  }
}

bool Arrives(Queue& queue, Sequence sequence) {
  while (true) {
    const auto arrived = queue.HasArrived(sequence);
    REQUIRE(arrived.has_value());
    if (*arrived) return true;
    std::this_thread::yield();
  }
}

TEST_CASE("An operation arrives when what was on its stream has ended, and the stream waits until it has left") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  CUstream stream = gpu->NewStream();
  std::atomic<bool> latch{false};
  gpu->Put(stream, latch);
  REQUIRE(queue->Enter(stream, 1, true).has_value());
  std::byte* const memory = gpu->Allocate(1);
  gpu->PutFill(stream, memory, 7, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!queue->HasArrived(1).value());
  latch = true;
  CHECK(Arrives(*queue, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!gpu->IsIdle(stream));
  queue->Leave(1);
  gpu->Synchronize(stream);
  CHECK(gpu->Values<unsigned char>(memory, 1) == Bytes8{7});
}

TEST_CASE("A stream that is not to wait goes on, and the operation still comes after what was on it") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  CUstream stream = gpu->NewStream();
  std::atomic<bool> latch{false};
  gpu->Put(stream, latch);
  REQUIRE(queue->Enter(stream, 1, false).has_value());
  std::byte* const memory = gpu->Allocate(1);
  gpu->PutFill(stream, memory, 7, 1);
  CHECK(!queue->HasArrived(1).value());
  latch = true;
  gpu->Synchronize(stream);  // Leave has not been called
  CHECK(queue->HasArrived(1).value());
  CHECK(gpu->Values<unsigned char>(memory, 1) == Bytes8{7});
  queue->Leave(1);
}

TEST_CASE("Places are taken again and again, by many streams, and left in order") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu, 4);
  const std::vector<CUstream> streams{gpu->NewStream(), gpu->NewStream(), gpu->NewStream()};
  for (Sequence sequence = 1; sequence <= 40; ++sequence) {
    REQUIRE(queue->Enter(streams[sequence % 3], sequence, true).has_value());
    if (sequence < 4) continue;  // so that four operations are always pending
    CHECK(Arrives(*queue, sequence - 3));
    queue->Leave(sequence - 3);
  }
  queue->Leave(40);
  for (CUstream stream : streams) gpu->Synchronize(stream);
}

TEST_CASE("ReleaseAllStreams releases every stream, now and later") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  CUstream before = gpu->NewStream(), after = gpu->NewStream();
  REQUIRE(queue->Enter(before, 1, true).has_value());
  queue->ReleaseAllStreams();
  queue->Leave(1);  // the owner may call Leave without knowing that the streams were released
  REQUIRE(queue->Enter(after, 2, true).has_value());
  gpu->Synchronize(before);
  gpu->Synchronize(after);
}

TEST_CASE("A stream that reaches its wait after the queue that released it has ended goes on") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  auto queue = QueueOf(*gpu);
  CUstream stream = gpu->NewStream();
  std::atomic<bool> latch{false};
  gpu->Put(stream, latch);
  REQUIRE(queue->Enter(stream, 1, true).has_value());
  std::byte* const memory = gpu->Allocate(1);
  gpu->PutFill(stream, memory, 7, 1);
  queue->ReleaseAllStreams();
  queue.reset();
  latch = true;
  gpu->Synchronize(stream);
  CHECK(gpu->Values<unsigned char>(memory, 1) == Bytes8{7});
}

TEST_CASE("Whether a stream waits for an operation is known of all communicators on a GPU") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto one = QueueOf(*gpu), other = QueueOf(*gpu);
  CUstream stream = gpu->NewStream();
  CHECK(!gpu->gpu()->DoStreamsWait());
  REQUIRE(one->Enter(stream, 1, false).has_value());
  CHECK(!gpu->gpu()->DoStreamsWait());
  REQUIRE(one->Enter(stream, 2, true).has_value());
  one->Leave(1);
  CHECK(gpu->gpu()->DoStreamsWait());
  one->Leave(2);
  CHECK(!gpu->gpu()->DoStreamsWait());
  REQUIRE(other->Enter(stream, 1, true).has_value());
  CHECK(gpu->gpu()->DoStreamsWait());
  other->ReleaseAllStreams();
  CHECK(!gpu->gpu()->DoStreamsWait());
  gpu->Synchronize(stream);
}

TEST_CASE("After ReleaseAllStreams no work begins that streams would have to wait for") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  Pinned host(*queue, 8);
  std::byte* const device = gpu->Allocate(8);
  std::string why;
  DevicePeers* const peers = queue->peers(why);
  REQUIRE_MESSAGE(peers != nullptr, why);
  queue->ReleaseAllStreams();
  const auto is_refused = [](const Status& status) { return !status && status.error().code() == ErrorCode::kAborted; };
  CHECK(is_refused(queue->Copy(CopyDirection::kToHost, {.host = host.data(), .device = device, .row_bytes = 8})));
  CHECK(is_refused(peers->CopyWithin(device, device + 4, 4)));
  DeviceReduce reduction{.destination = device, .count = 1, .elements = 4};
  reduction.operands[0] = device + 4;
  CHECK(is_refused(peers->Reduce(reduction)));
  CHECK(peers->begun() == 0);
}

TEST_CASE("Bytes and rows of bytes are copied both ways, and nothing beside them") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  constexpr std::size_t kBytes = 5000;
  Pinned from(*queue, kBytes), to(*queue, kBytes);
  std::iota(from.values.begin(), from.values.end(), static_cast<unsigned char>(0));
  std::byte* const device = gpu->Allocate(kBytes);
  REQUIRE(
      queue->Copy(CopyDirection::kToDevice, {.host = from.data(), .device = device, .row_bytes = kBytes}).has_value());
  WaitForCopies(*queue, CopyDirection::kToDevice, 1);
  CHECK(gpu->Values<unsigned char>(device, kBytes) == from.values);

  REQUIRE(queue
              ->Copy(CopyDirection::kToHost, {.host = to.data() + 3,
                                              .device = device + 7,
                                              .row_bytes = 11,
                                              .rows = 30,
                                              .host_pitch = 20,
                                              .device_pitch = 100})
              .has_value());
  WaitForCopies(*queue, CopyDirection::kToHost, 1);
  Bytes8 expected(kBytes);
  for (std::size_t row = 0; row < 30; ++row)
    for (std::size_t i = 0; i < 11; ++i) expected[3 + row * 20 + i] = from.values[7 + row * 100 + i];
  CHECK(to.values == expected);
  CHECK(queue->Copied(CopyDirection::kToDevice).value() == 1);
}

TEST_CASE("Copies of any length arrive whole, and nothing beside them") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  constexpr std::size_t kMax = 70'000, kBeside = 8;
  Pinned host(*queue, kMax);
  std::byte* const device = gpu->Allocate(kMax + 2 * kBeside);
  CUstream stream = gpu->NewStream();
  std::uint64_t copies = 0;
  for (const std::size_t bytes :
       {1u, 2u, 3u, 4u, 5u, 7u, 8u, 63u, 4095u, 4096u, 16'383u, 16'384u, 65'535u, 65'536u, 69'999u}) {
    CAPTURE(bytes);
    for (std::size_t i = 0; i < bytes; ++i) host.values[i] = static_cast<unsigned char>(i * 7 + bytes);
    gpu->PutFill(stream, device, 0xA5, kMax + 2 * kBeside);
    gpu->Synchronize(stream);
    REQUIRE(queue->Copy(CopyDirection::kToDevice, {.host = host.data(), .device = device + kBeside, .row_bytes = bytes})
                .has_value());
    WaitForCopies(*queue, CopyDirection::kToDevice, ++copies);
    Bytes8 expected(bytes + 2 * kBeside, 0xA5);
    std::copy_n(host.values.begin(), bytes, expected.begin() + kBeside);
    CHECK(gpu->Values<unsigned char>(device, expected.size()) == expected);
  }
}

TEST_CASE("As many copies as may be are under way together, and end in their order") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  constexpr std::size_t kEach = 100'000;
  Pinned host(*queue, kEach * Queue::kMaxCopies);
  std::byte* const device = gpu->Allocate(host.values.size());
  for (std::uint64_t round = 0; round < 5; ++round) {
    std::fill(host.values.begin(), host.values.end(), static_cast<unsigned char>(round + 1));
    for (std::size_t i = 0; i < Queue::kMaxCopies; ++i)
      REQUIRE(queue
                  ->Copy(CopyDirection::kToDevice,
                         {.host = host.data() + i * kEach, .device = device + i * kEach, .row_bytes = kEach})
                  .has_value());
    WaitForCopies(*queue, CopyDirection::kToDevice, (round + 1) * Queue::kMaxCopies);
    CHECK(gpu->Values<unsigned char>(device, host.values.size()) == host.values);
  }
}

TEST_CASE("After draining, no copy touches the host's memory any more, whatever a user's stream waits for") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  CUstream stuck = gpu->NewStream();
  constexpr std::size_t kBytes = 1 << 20;
  Pinned host(*queue, kBytes);
  std::byte* const device = gpu->Allocate(kBytes);
  REQUIRE(queue->Enter(stuck, 1, true).has_value());
  REQUIRE(
      queue->Copy(CopyDirection::kToHost, {.host = host.data(), .device = device, .row_bytes = kBytes}).has_value());
  queue->Drain();
  CHECK(queue->Copied(CopyDirection::kToHost).value() == 1);
  std::fill(host.values.begin(), host.values.end(), static_cast<unsigned char>(3));
  CHECK(host.values == Bytes8(kBytes, 3));
  queue->ReleaseAllStreams();
  gpu->Synchronize(stuck);
}

TEST_CASE("Memory that is not the GPU's is detected, at its end as well as its beginning") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  std::byte* const device = gpu->Allocate(1000);
  int host = 0;
  CHECK(queue->Check(device, 1000, "input").has_value());
  const Status refused = queue->Check(&host, sizeof host, "input");
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message().find("input (0x") == 0);
  CHECK(refused.error().message().find("): expected memory of GPU 0 (") != std::string::npos);
  const Status longer = queue->Check(device, std::size_t{1} << 40, "output");
  REQUIRE(!longer.has_value());
  CHECK(longer.error().message().find("is shorter than the expected 1099511627776 bytes") != std::string::npos);
}

TEST_CASE("An allocation is exported whole, under an identity that no other one has") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  std::byte* const device = gpu->Allocate(10'000);
  std::byte* const other = gpu->Allocate(10'000);
  const auto exported = queue->Export(device + 100);
  REQUIRE(exported.has_value());
  CHECK(exported->memory.bytes.data() <= device);
  CHECK(exported->memory.bytes.data() + exported->memory.bytes.size() >= device + 10'000);
  CHECK(exported->memory.device == queue->name());
  CHECK(exported->memory.dma_buf_fd == exported->dma_buf.get());
  CHECK(exported->identity != 0);
  CHECK(queue->IdentityOf(device + 9999) == exported->identity);
  CHECK(queue->IdentityOf(other) != exported->identity);
  const std::byte host{};
  CHECK(queue->IdentityOf(&host) == 0);
  const auto refused = queue->Export(&host);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == ErrorCode::kUnsupported);
}

TEST_CASE("Memory that is pinned already is refused in the driver's words") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  const auto queue = QueueOf(*gpu);
  Pinned once(*queue, 8192);
  const auto twice = queue->Pin({once.data(), 8192});
  REQUIRE(!twice.has_value());
  CHECK(twice.error().message().find("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED") != std::string::npos);
  CHECK(queue->Pin({}).has_value());
}

}  // namespace queue_test
}  // namespace rondo::cuda
