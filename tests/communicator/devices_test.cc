// Operations on device memory that are staged through the host, with a simulated device. The CPU must not touch the
// device's memory, and the device's copies complete late and in pieces.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/half.h"
#include "collectives/algorithms/table.h"
#include "tests/communicator/own_device.h"
#include "tests/communicator/plain.h"
#include "tests/support/fault_row.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace devices_test {

constexpr std::uint64_t kWindowBytes = 4096;

// Like OnRanks, but each rank has its own device.
void OnDevices(InprocNetwork& network, const std::function<void(Communicator&, OwnDevice&)>& body,
               const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  std::vector<std::unique_ptr<OwnDevice>> devices;
  for (Rank r = 0; r < network.world_size(); ++r) devices.push_back(std::make_unique<OwnDevice>(r));
  OnRanks(
      network,
      [&](Communicator& communicator) {
        OwnDevice& own = *devices[static_cast<std::size_t>(communicator.rank())];
        body(communicator, own);
        CHECK(own.device->GuardsIntact());
      },
      [&](CommunicatorOptions& options) {
        options.device = devices[static_cast<std::size_t>(options.rank)]->device;
        options.device_window_bytes = kWindowBytes;
        if (adjust) adjust(options);
      });
  for (const auto& own : devices) CHECK(own->device->pinned_bytes() == 0);
}

TEST_CASE("A stream that need not wait goes on at once, and the work reports the end") {
  InprocNetwork network(2, {});
  std::atomic<bool> gone_on{false};
  OnDevices(network, [&](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(100, 1));
    OperationOptions options = own.options();
    options.stream_waits = false;
    while (communicator.rank() == 1 && !gone_on) std::this_thread::yield();
    Work work =
        communicator.AllReduceAsync(memory.address(), memory.address(), 100, DataType::kInt64, ReduceOp::kSum, options);
    CHECK(own.stream.Run());
    if (communicator.rank() == 0) CHECK(!work.Test().has_value());
    gone_on = true;
    CHECK(TextOf(work.Wait()) == "ok");
    CHECK(ValuesOf(memory) == plain::Values(100, 2));
  });
}

TEST_CASE("Every collective gives on devices what it gives on the host, in windows of every number, in place or not") {
  for (const int world : {1, 2, 3, 4}) {
    InprocNetwork network(world, {.ring_bytes = 1024, .slice_bytes = 77});
    OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
      for (const Collective collective : kCollectives)
        for (const bool in_place : {false, true})
          // These counts give: no window, a part of a window, one window, a little more than one, and several.
          for (const std::uint64_t count : {0u, 1u, 100u, 512u, 513u, 2100u}) {
            plain::Case c;
            c.collective = collective;
            c.in_place = in_place;
            c.root = communicator.world_size() - 1;
            c.counts.assign(static_cast<std::size_t>(communicator.world_size()), count);
            CAPTURE(plain::Describe(c));
            CHECK(RunCase(communicator, own, c) == "");
          }
    });
  }
}

TEST_CASE("Every algorithm serves devices") {
  InprocNetwork network(3, {.ring_bytes = 1024, .slice_bytes = 77});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    for (const AlgorithmEntry& entry : AllAlgorithms()) {
      plain::Case c;
      c.collective = entry.collective;
      c.algorithm = entry.algorithm;
      c.counts.assign(3, 700);
      CAPTURE(plain::Describe(c));
      CHECK(RunCase(communicator, own, c) == "");
    }
  });
}

TEST_CASE("Blocks with counts of their own, also more of them than fit the windows") {
  InprocNetwork network(3, {.ring_bytes = 1024, .slice_bytes = 77});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter, Collective::kGather,
                                        Collective::kScatter, Collective::kAllToAll})
      for (const bool in_place : {false, true})
        for (const plain::Counts& counts : {plain::Counts{1, 0, 5}, plain::Counts{300, 7000, 20}}) {
          plain::Case c;
          c.collective = collective;
          c.varying = true;
          c.in_place = in_place && HasInPlace(collective);
          c.root = 1;
          c.counts = counts;
          CAPTURE(plain::Describe(c));
          CHECK(RunCase(communicator, own, c) == "");
        }
  });
}

TEST_CASE("An operation comes after what is on its stream, and what is put there later after the operation") {
  constexpr std::size_t kElements = 3000;
  InprocNetwork network(2, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.device->Allocate(kElements * 8);
    const auto fill = [&](std::int64_t value) {
      return [&memory, value] {
        const plain::Values values(kElements, value);
        std::memcpy(memory.bytes().data(), values.data(), memory.size());
      };
    };
    own.stream.Hold(true);
    own.stream.Put(fill(communicator.rank() + 1));
    const auto issue = [&] {
      return communicator.AllReduceAsync(memory.address(), memory.address(), kElements, DataType::kInt64,
                                         ReduceOp::kSum, own.options());
    };
    Work first = issue();
    plain::Values between;
    own.stream.Put([&] { between = ValuesOf(memory); });
    own.stream.Put(fill(10));
    Work second = issue();
    CHECK(!first.Test());
    CHECK(between.empty());
    own.stream.Hold(false);
    CHECK(TextOf(second.Wait()) == "ok");
    CHECK(TextOf(first.Wait()) == "ok");
    CHECK(between == plain::Values(kElements, 3));
    CHECK(ValuesOf(memory) == plain::Values(kElements, 20));
    CHECK(own.stream.Run());
  });
}

TEST_CASE("No thread has to wait: the stream goes on when the operation has ended") {
  InprocNetwork network(2, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
    communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum, own.options());
    while (!own.stream.Run()) std::this_thread::yield();
    CHECK(ValuesOf(memory) == plain::Values{8, 10});
  });
}

TEST_CASE("Operations on devices and on the host keep their order") {
  InprocNetwork network(2, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(2000, 1));
    own.stream.Hold(true);
    Work on_device = communicator.AllReduceAsync(memory.address(), memory.address(), 2000, DataType::kInt64,
                                                 ReduceOp::kSum, own.options());
    std::int64_t value = 1;
    Work on_host = communicator.AllReduceAsync(&value, &value, 1, DataType::kInt64, ReduceOp::kSum);
    CHECK(!on_host.Test());
    own.stream.Hold(false);
    CHECK(TextOf(on_host.Wait()) == "ok");
    CHECK(value == 2);
    CHECK(on_device.Test().has_value());
    CHECK(ValuesOf(memory) == plain::Values(2000, 2));
  });
}

TEST_CASE("A rank that is a window ahead is not taken for a mismatch by ranks that still wait for another rank") {
  InprocNetwork network(3, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    plain::Case c;
    c.collective = Collective::kGather;
    c.algorithm = Algorithm::kDirect;
    c.counts.assign(3, 1500);
    if (communicator.rank() != 2) {
      CHECK(RunCase(communicator, own, c) == "");
      return;
    }
    own.device->HoldCopies(true);
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      own.device->HoldCopies(false);
    });
    CHECK(RunCase(communicator, own, c) == "");
    release.join();
  });
}

TEST_CASE("Results on devices are compared, widened, averaged and combined by users' functions as on the host") {
  InprocNetwork network(3, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    constexpr std::size_t kElements = 5000;
    const std::vector<std::uint16_t> halves(kElements, ToBfloat16(1.0F + static_cast<float>(communicator.rank())));
    PlainDeviceMemory& wide = own.Holding(halves.data(), 2 * kElements);
    OperationOptions options = own.options();
    options.fp32_accumulate = true;
    options.compare_results = true;
    CHECK(TextOf(communicator.AllReduce(wide.address(), wide.address(), kElements, DataType::kBfloat16, ReduceOp::kAvg,
                                        options)) == "ok");
    std::vector<std::uint16_t> got(kElements);
    std::memcpy(got.data(), wide.bytes().data(), wide.size());
    CHECK(got == std::vector<std::uint16_t>(kElements, ToBfloat16(2.0F)));

    // In each window, every block of a widened result is at a different offset.
    std::vector<std::uint16_t> blocks(3 * kElements);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = ToBfloat16(static_cast<float>(i % 64));
    PlainDeviceMemory& all = own.Holding(blocks.data(), 2 * blocks.size());
    PlainDeviceMemory& part = own.device->Allocate(2 * kElements);
    CHECK(TextOf(communicator.ReduceScatter(all.address(), part.address(), kElements, DataType::kBfloat16,
                                            ReduceOp::kAvg, options)) == "ok");
    std::memcpy(got.data(), part.bytes().data(), part.size());
    const auto own_block = blocks.begin() + static_cast<std::ptrdiff_t>(kElements) * communicator.rank();
    CHECK(std::equal(got.begin(), got.end(), own_block));

    const auto larger = communicator.DefineOperation(
        {.name = "larger",
         .combine = [](const void* left, const void* right, void* output, std::size_t elements, DataType) {
           for (std::size_t i = 0; i < elements; ++i)
             static_cast<std::int64_t*>(output)[i] =
                 std::max(static_cast<const std::int64_t*>(left)[i], static_cast<const std::int64_t*>(right)[i]);
         }});
    REQUIRE(larger);
    PlainDeviceMemory& memory = own.Holding(plain::Values(700, communicator.rank()));
    CHECK(TextOf(communicator.AllReduce(memory.address(), memory.address(), 700, DataType::kInt64, *larger,
                                        own.options())) == "ok");
    CHECK(ValuesOf(memory) == plain::Values(700, 2));
  });
}

TEST_CASE("Averages whose sums are beyond their type are right through host memory, too, in many windows") {
  InprocNetwork network(3, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    for (const DataType type : extreme::kTypes)
      for (const bool in_place : {false, true}) {
        CAPTURE(std::string(Name(type)));
        CHECK(RunAverage(communicator, own, {.in_place = in_place, .count = 5000}, type) == "");
      }
  });
}

// Collects the errors of the two ranks of a case in which a device fails, and checks them when it is destroyed.
class DeviceFault {
 public:
  ~DeviceFault() { StateFault(37, fired_, std::vector<Status>(errors_.begin(), errors_.end()), {.path = "inproc"}); }
  void Add(Rank rank, const Status& status, std::uint64_t fired) {
    errors_[static_cast<std::size_t>(rank)] = status;
    fired_ += fired;
  }

 private:
  std::array<Status, 2> errors_;
  std::atomic<std::uint64_t> fired_{0};
};

std::string SaidOf(const Status& status) { return status ? "" : std::string(status.error().message()); }

TEST_CASE("A stream that does not come is named by the timeout, and goes on after it") {
  InprocNetwork network(2, {});
  DeviceFault fault;
  OnDevices(network, [&](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
    if (communicator.rank() == 1) own.stream.Hold(true);
    OperationOptions options = own.options();
    options.timeout = std::chrono::milliseconds(communicator.rank() == 1 ? 300 : 10'000);
    const Status status =
        communicator.AllReduce(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum, options);
    fault.Add(communicator.rank(), status, own.stream.held_looks());
    REQUIRE(!status);
    CAPTURE(status.error().ToString());
    CHECK(status.error().code() == ErrorCode::kTimeout);
    CHECK(status.error().culprit() == 1);
    CHECK(status.error().message().find("rank 1 waits for earlier work on its stream of the plain device") !=
          std::string::npos);
    own.stream.Hold(false);
    CHECK(own.stream.Run());
    const Status later =
        communicator.AllReduce(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum, own.options());
    CHECK(!later);
    CHECK(own.stream.Run());
  });
}

// Runs the stream's work on the calling thread, in place of a device, until the stream is empty.
void AwaitStream(PlainStream& stream) {
  while (!stream.Run()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("A driver that waits for streams that wait for an operation is named by the timeout, and they go on") {
  // The watchdog needs some time to detect that a driver call does not return. One timeout is shorter than that time,
  // the other is longer.
  for (const int timeout_ms : {300, 3000}) {
    CAPTURE(timeout_ms);
    InprocNetwork network(2, {});
    DeviceFault fault;
    OnDevices(network, [&](Communicator& communicator, OwnDevice& own) {
      PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
      OperationOptions options = own.options();
      options.timeout = std::chrono::milliseconds(communicator.rank() == 1 ? timeout_ms : 30'000);
      if (communicator.rank() == 1) own.device->HoldUpCalls(true);
      Work work =
          communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum, options);
      if (communicator.rank() == 1) AwaitStream(own.stream);
      const Status status = work.Wait();
      fault.Add(communicator.rank(), status, own.device->held_calls());
      REQUIRE(!status);
      CAPTURE(status.error().ToString());
      CHECK(status.error().code() == ErrorCode::kTimeout);
      CHECK(status.error().culprit() == 1);
      CHECK(SaidOf(status).find("operation #1 did not end in time: rank 1 waits for a call that does not return; "
                                "if this is a call of the driver of the plain device") != std::string::npos);
      CHECK(own.stream.Run());
    });
  }
}

TEST_CASE("Streams go on if no thread advances the operation that they wait for, or the one before it") {
  for (const bool host_first : {false, true}) {
    InprocNetwork network(2, {});
    OnDevices(
        network,
        [&](Communicator& communicator, OwnDevice& own) {
          PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
          OperationOptions options = own.options();
          options.timeout = std::chrono::milliseconds(100);
          plain::Values host{1};
          Work first;
          if (host_first)
            first = communicator.AllReduceAsync(host.data(), host.data(), 1, DataType::kInt64, ReduceOp::kSum,
                                                {.timeout = options.timeout});
          Work work = communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64,
                                                  ReduceOp::kSum, options);
          AwaitStream(own.stream);
          CHECK(SaidOf(work.Wait()).find("#1 did not end in time") != std::string::npos);
          CHECK(SaidOf(work.Wait()).find("waits for a thread to advance it") != std::string::npos);
        },
        [](CommunicatorOptions& options) { options.progress_thread = false; });
  }
}

// A logger that waits for a stream. A real logger may wait in the same way for an interpreter's lock, which a blocked
// thread holds.
class WaitsForStream final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    while (!stream_goes_on) std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    said_ += text;
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  std::atomic<bool> stream_goes_on{false};

 private:
  std::mutex mutex_;
  std::string said_;
};

TEST_CASE("A blocked thread is logged after two seconds, and no thread waits for the logger") {
  WaitsForStream logger;
  InprocNetwork network(1, {});
  OnDevices(
      network,
      [&](Communicator& communicator, OwnDevice& own) {
        PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
        own.device->HoldUpCalls(true);
        OperationOptions options = own.options();
        options.timeout = std::chrono::seconds(4);
        Work work = communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum,
                                                options);
        AwaitStream(own.stream);
        logger.stream_goes_on = true;
        CHECK(!work.Wait());
      },
      [&](CommunicatorOptions& options) { options.logger = &logger; });
  CHECK(logger.said().find("rank 0: the thread that advances operation #1 has not returned from a call for ") !=
        std::string::npos);
}

TEST_CASE("Operations that no stream waits for may end late, as without any") {
  InprocNetwork network(1, {});
  OnDevices(
      network,
      [](Communicator& communicator, OwnDevice& own) {
        PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
        plain::Values host{1};
        for (const bool behind_one : {false, true}) {
          Work waited = communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64,
                                                    ReduceOp::kSum, own.options());
          if (!behind_one) CHECK(TextOf(waited.Wait()) == "ok");
          Work late = communicator.AllReduceAsync(host.data(), host.data(), 1, DataType::kInt64, ReduceOp::kSum,
                                                  {.timeout = std::chrono::milliseconds(300)});
          std::this_thread::sleep_for(std::chrono::seconds(3));  // meanwhile no thread advances `late`
          CHECK(!communicator.failure());
          if (!behind_one) CHECK(TextOf(late.Wait()) == "ok");
        }
      },
      [](CommunicatorOptions& options) { options.progress_thread = false; });
}

TEST_CASE("A device that faults in the midst ends the operation on all ranks, and the streams go on") {
  InprocNetwork network(2, {});
  DeviceFault fault;
  OnDevices(network, [&](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(4000, 1));
    if (communicator.rank() == 0) own.device->FailCopyAfter(5);
    const Status status = communicator.AllReduce(memory.address(), memory.address(), 4000, DataType::kInt64,
                                                 ReduceOp::kSum, own.options());
    fault.Add(communicator.rank(), status, own.device->faults());
    REQUIRE(!status);
    CAPTURE(status.error().ToString());
    CHECK(status.error().code() == ErrorCode::kDevice);
    CHECK(status.error().culprit() == 0);
    CHECK(SaidOf(status).find("the plain device: the copy has faulted") != std::string::npos);
    CHECK(own.stream.Run());
  });
}

TEST_CASE("What is wrong with a call on devices starts nothing, and the communicator goes on") {
  InprocNetwork network(2, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
    std::int64_t host[2] = {1, 2};
    const auto refused = [&](const void* in, void* out, const OperationOptions& options) {
      const Status status = communicator.AllReduce(in, out, 2, DataType::kInt64, ReduceOp::kSum, options);
      REQUIRE(!status);
      return status.error().ToString();
    };
    CHECK(refused(host, memory.address(), own.options()).find("is no memory of a device") != std::string::npos);
    // After this call the communicator has a device queue.
    CHECK(TextOf(communicator.AllReduce(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum,
                                        own.options())) == "ok");
    CHECK(refused(memory.address(), host, own.options()).find("output is no memory of the plain device") !=
          std::string::npos);
    CHECK(refused(host, host, {.stream = &own.stream}).find("the buffers are in host memory") != std::string::npos);
    CHECK(refused(memory.address(), memory.address(), {.memory = MemoryKind::kDevice}).find("no default stream") !=
          std::string::npos);
    CHECK(own.stream.Run());
    CHECK(TextOf(communicator.Barrier()) == "ok");
  });
  InprocNetwork without(1, {});
  OnRanks(without, [](Communicator& communicator) {
    std::int64_t value = 1;
    const Status status =
        communicator.AllReduce(&value, &value, 1, DataType::kInt64, ReduceOp::kSum, {.memory = MemoryKind::kDevice});
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kUnsupported);
    CHECK(status.error().message().find("made without devices") != std::string::npos);
  });
}

TEST_CASE("If one rank's memory is the host's and another's a device's, the error names the memory") {
  InprocNetwork network(2, {});
  OnDevices(network, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(10, 1));
    plain::Values host(10, 1);
    const bool on_device = communicator.rank() == 0;
    void* const data = on_device ? static_cast<void*>(memory.address()) : host.data();
    const Status status = communicator.AllReduce(data, data, 10, DataType::kInt64, ReduceOp::kSum,
                                                 on_device ? own.options() : OperationOptions{});
    REQUIRE(!status);
    CAPTURE(status.error().ToString());
    CHECK(status.error().code() == ErrorCode::kMismatch);
    CHECK(status.error().ToString().find("on devices by") != std::string::npos);
  });
}

}  // namespace devices_test
}  // namespace rondo
