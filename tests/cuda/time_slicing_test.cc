// Copies on a GPU with time slicing: short copies to the device are made as copies of rows, which do not wait for a
// time slice.
#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "cuda/queue.h"
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/on_gpu.h"

namespace rondo::cuda {
namespace time_slicing_test {

// How many two-dimensional copies one copy of `bytes` becomes.
std::uint64_t RowsOf(const FakeDriver& fake, CopyDirection direction, std::size_t bytes) {
  const auto gpu = OnGpu::Find();
  auto queue = Queue::Make(gpu->gpu(), 1).value();
  std::vector<std::byte> host(bytes);
  const auto pinned = queue->Pin(host).value();
  const std::uint64_t before = fake.Calls("Memcpy2DAsync");
  REQUIRE(
      queue->Copy(direction, {.host = host.data(), .device = gpu->Allocate(bytes), .row_bytes = bytes}).has_value());
  while (queue->Copied(direction).value() == 0) std::this_thread::yield();
  return fake.Calls("Memcpy2DAsync") - before;
}

TEST_CASE("Short copies to the GPU go as two rows, and the odd byte with another two") {
  const FakeDriver fake;
  const auto to_device = [&](std::size_t bytes) { return RowsOf(fake, CopyDirection::kToDevice, bytes); };
  CHECK(to_device(1) == 0);  // too short for two rows
  CHECK(to_device(2) == 1);
  CHECK(to_device(3) == 2);
  CHECK(to_device(65'534) == 1);
  CHECK(to_device(65'536) == 0);  // a copy of this size needs no time slice anyway
  CHECK(RowsOf(fake, CopyDirection::kToHost, 4) == 0);
}

TEST_CASE("With MPS, which runs processes side by side, copies go as they are") {
  const FakeDriver fake;
  fake.SetMps(true);
  CHECK(RowsOf(fake, CopyDirection::kToDevice, 4) == 0);
}

}  // namespace time_slicing_test
}  // namespace rondo::cuda
