// Tests operations on device memory among ranks of one host. The devices read each other's memory directly, unless one
// of them cannot. The devices are fakes (tests/support/plain_device.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/half.h"
#include "tests/communicator/own_device.h"
#include "tests/support/shm_ranks.h"

namespace rondo::test {
namespace devices_test {

using Devices = std::vector<std::unique_ptr<OwnDevice>>;

void OnShmDevices(int ranks, const std::function<void(Communicator&, OwnDevice&)>& body,
                  const std::function<void(Devices&)>& prepare = nullptr,
                  const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  Devices devices;
  for (Rank r = 0; r < ranks; ++r) devices.push_back(std::make_unique<OwnDevice>(r));
  if (prepare) prepare(devices);
  const auto own = [&](Rank rank) -> OwnDevice& { return *devices[static_cast<std::size_t>(rank)]; };
  OnShmRanks({.ranks = ranks,
              .adjust =
                  [&](CommunicatorOptions& options) {
                    options.device = own(options.rank).device;
                    options.device_window_bytes = 4096;
                    if (adjust) adjust(options);
                  }},
             [&](Communicator& communicator) {
               body(communicator, own(communicator.rank()));
               CHECK(own(communicator.rank()).device->GuardsIntact());
             });
}

plain::Case CaseOf(Collective collective, const Communicator& communicator, std::uint64_t count, bool in_place) {
  plain::Case c;
  c.collective = collective;
  c.in_place = in_place;
  c.root = communicator.world_size() - 1;
  c.counts.assign(static_cast<std::size_t>(communicator.world_size()), count);
  return c;
}

void CheckEveryCollective(Communicator& communicator, OwnDevice& own) {
  for (const Collective collective : kCollectives)
    for (const bool in_place : {false, true})
      for (const std::uint64_t count : {0u, 1u, 9u, 100u, 5000u}) {
        const plain::Case c = CaseOf(collective, communicator, count, in_place);
        CAPTURE(plain::Describe(c));
        CHECK(RunCase(communicator, own, c) == "");
      }
}

TEST_CASE("Every collective is done where memory lies, and nothing goes through host memory") {
  for (const int ranks : {2, 3, 4}) {
    OnShmDevices(ranks, [](Communicator& communicator, OwnDevice& own) {
      own.device->FailCopyAfter(0);  // makes any copy to or from the host fail
      CheckEveryCollective(communicator, own);
      CHECK(own.device->reductions() > 0);
      CHECK(communicator.DescribePaths().find("memory of the plain device: read directly by the ranks' devices") !=
            std::string::npos);
    });
  }
}

TEST_CASE("Where one device does not reach the others' memory, or is not reached, all go through host memory") {
  for (const bool reaches : {false, true}) {
    OnShmDevices(
        3,
        [](Communicator& communicator, OwnDevice& own) {
          CheckEveryCollective(communicator, own);
          CHECK(own.device->reductions() == 0);
          CHECK(communicator.DescribePaths().find("memory of the plain device: staged through the host") !=
                std::string::npos);
        },
        [&](Devices& devices) {
          devices[1]->device->SetPeers(reaches);
          devices[1]->device->SetReachable(!reaches);
        });
  }
}

TEST_CASE("It is not even tried where that is asked for") {
  OnShmDevices(
      2,
      [](Communicator& communicator, OwnDevice& own) {
        CheckEveryCollective(communicator, own);
        CHECK(own.device->reductions() == 0);
      },
      nullptr, [](CommunicatorOptions& options) { options.device_peers = false; });
}

TEST_CASE("If processes time-slice a device, short vectors are staged through the host from the second operation on") {
  struct {
    std::array<unsigned char, 3> device;
    std::array<std::uint64_t, 3> process;
    bool time_sliced;
  } const cases[] = {
      {{1, 2, 2}, {7, 8, 9}, true},   // two processes share a device
      {{1, 2, 3}, {7, 8, 9}, false},  // each process has its own device
      {{1, 1, 1}, {7, 7, 7}, false},  // all ranks are in one process
      {{0, 0, 0}, {7, 8, 9}, false},  // the device runs processes concurrently
  };
  for (const auto& [device, process, time_sliced] : cases) {
    OnShmDevices(
        3,
        [time_sliced = time_sliced](Communicator& communicator, OwnDevice& own) {
          const auto reductions_of = [&](Collective collective, std::uint64_t count) {
            const std::uint64_t before = own.device->reductions();
            CHECK(RunCase(communicator, own, CaseOf(collective, communicator, count, false)) == "");
            return own.device->reductions() - before;
          };
          CHECK(reductions_of(Collective::kAllReduce, 100) == 1);  // the ranks do not yet know each other's devices
          CHECK(reductions_of(Collective::kAllReduce, 125) == (time_sliced ? 0 : 1));
          CHECK(reductions_of(Collective::kAllReduce, 126) == 1);
          CHECK(reductions_of(Collective::kReduceScatter, 41) ==
                (time_sliced ? 0 : 1));  // the limit applies to the bytes of all blocks together
          CHECK(reductions_of(Collective::kReduceScatter, 42) == 1);
        },
        [&, device = device, process = process](Devices& devices) {
          for (std::size_t r = 0; r < 3; ++r) devices[r]->device->SetTimeSlicedGpu(device[r], process[r]);
        },
        [](CommunicatorOptions& options) { options.gpu_timeslice_staging_max_bytes = 1000; });
  }
}

TEST_CASE("Averages are divided once, and pre-multiplied sums scaled by each rank's factor") {
  OnShmDevices(3, [](Communicator& communicator, OwnDevice& own) {
    constexpr std::size_t kElements = 1000;
    const Rank rank = communicator.rank();
    const auto reduced = [&](ReduceOp op, double scale) {
      const std::vector<std::uint16_t> halves(kElements, ToFloat16(static_cast<float>(rank + 1)));
      PlainDeviceMemory& memory = own.Holding(halves.data(), 2 * kElements);
      OperationOptions options = own.options();
      options.scale = scale;
      const Status status =
          communicator.AllReduce(memory.address(), memory.address(), kElements, DataType::kFloat16, op, options);
      INFO((status ? std::string() : status.error().ToString()));
      CHECK(status);
      std::vector<std::uint16_t> got(kElements);
      std::memcpy(got.data(), memory.bytes().data(), memory.size());
      CHECK(std::all_of(got.begin(), got.end(), [&](std::uint16_t v) { return v == got[0]; }));
      return FromFloat16(got[0]);
    };
    CHECK(reduced(ReduceOp::kAvg, 1) == 2.0F);
    CHECK(reduced(ReduceOp::kPremulSum, rank + 1) == 14.0F);  // 1 + 4 + 9
    CHECK(reduced(ReduceOp::kMax, 1) == 3.0F);
    CHECK(own.device->reductions() > 0);
  });
}

TEST_CASE("Averages whose sums are beyond their type are right by the devices alone") {
  OnShmDevices(3, [](Communicator& communicator, OwnDevice& own) {
    own.device->FailCopyAfter(0);  // makes any copy to or from the host fail
    for (const DataType type : extreme::kTypes)
      for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
        for (const bool in_place : {false, true}) {
          CAPTURE(std::string(Name(type)));
          CHECK(RunAverage(communicator, own, {.collective = collective, .in_place = in_place, .count = 1000}, type) ==
                "");
        }
    CHECK(own.device->reductions() > 0);
  });
}

TEST_CASE("Operations on the host, on devices and through host memory follow each other as they please") {
  OnShmDevices(2, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(3000, 1));
    const auto sum = [&](const OperationOptions& options) {
      return communicator.AllReduceAsync(memory.address(), memory.address(), 3000, DataType::kInt64, ReduceOp::kSum,
                                         options);
    };
    OperationOptions compared = own.options();
    compared.compare_results = true;
    std::vector<Work> works;
    std::vector<std::int64_t> host(20, 1);
    for (std::size_t i = 0; i < host.size(); ++i) {
      works.push_back(i % 2 == 0 ? sum(own.options()) : sum(compared));
      works.push_back(communicator.AllReduceAsync(&host[i], &host[i], 1, DataType::kInt64, ReduceOp::kSum));
    }
    for (Work& work : works) CHECK(work.Wait());
    CHECK(ValuesOf(memory) == plain::Values(3000, std::int64_t{1} << 20));
    CHECK(host == std::vector<std::int64_t>(20, 2));
    // Only the operations without compare_results reduce on the device, because the CPU must compute the others.
    CHECK(own.device->reductions() == 10);
  });
}

TEST_CASE("Ranks that disagree about an operation on devices get an error that describes the mismatch") {
  OnShmDevices(2, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(100, 1));
    const std::uint64_t count = communicator.rank() == 0 ? 100 : 99;
    const Status status = communicator.AllReduce(memory.address(), memory.address(), count, DataType::kInt64,
                                                 ReduceOp::kSum, own.options());
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kMismatch);
    CHECK(status.error().ToString().find("all_reduce int64 x 99 sum on devices") != std::string::npos);
    CHECK(own.stream.Run());
  });
}

TEST_CASE("A rank that gives up amid an operation on devices has all others fail, and no stream waits") {
  OnShmDevices(3, [](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values(100'000, 1));
    if (communicator.rank() == 1) own.stream.Hold(true);
    Work work = communicator.AllReduceAsync(memory.address(), memory.address(), 100'000, DataType::kInt64,
                                            ReduceOp::kSum, own.options());
    if (communicator.rank() == 1) communicator.Abort("as the test wants it");
    const Status status = work.Wait();
    REQUIRE(!status);
    INFO(status.error().ToString());
    CHECK(status.error().message().find("as the test wants it") != std::string::npos);
    own.stream.Hold(false);
    CHECK(own.stream.Run());
  });
}

TEST_CASE("Streams also go on if another rank fails while the driver blocks the thread that would release them") {
  std::atomic<bool> held_up{false};
  OnShmDevices(2, [&](Communicator& communicator, OwnDevice& own) {
    PlainDeviceMemory& memory = own.Holding(plain::Values{4, 5});
    CHECK(communicator.Barrier());  // so that the ranks are connected
    if (communicator.rank() == 0) {
      while (!held_up) std::this_thread::yield();
      return communicator.Abort("as the test wants it");
    }
    own.device->HoldUpCalls(true);
    Work work = communicator.AllReduceAsync(memory.address(), memory.address(), 2, DataType::kInt64, ReduceOp::kSum,
                                            own.options());
    while (own.device->held_calls() == 0) std::this_thread::yield();
    held_up = true;
    while (!own.stream.Run()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Status status = work.Wait();
    REQUIRE(!status);
    INFO(status.error().ToString());
    CHECK(status.error().message().find("as the test wants it") != std::string::npos);
  });
}

}  // namespace devices_test
}  // namespace rondo::test
