// Lanes that send directly from device memory: which data they send in this way, which data is still copied, and which
// memory is registered with adapters. The adapters here are simulated; the tests in tests/transport_ib that
// run in virtual machines use real verbs.
#include "tests/support/device_sending.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "collectives/algorithms/table.h"
#include "collectives/device/registrations.h"
#include "tests/communicator/own_device.h"
#include "tests/communicator/plain.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace device_sending_test {

constexpr std::uint64_t kWindowBytes = 4096;
constexpr std::size_t kElements = 3000;  // several windows (pieces of a staged vector)
constexpr std::size_t kBytes = kElements * sizeof(std::int64_t);

struct Own : OwnDevice {
  explicit Own(Rank rank) : OwnDevice(rank), adapters(*device) {}
  PlainAdapters adapters;
};

void OnAdapters(int world, const std::function<void(Communicator&, Own&)>& body,
                const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  InprocNetwork network(world, {.ring_bytes = 1024, .slice_bytes = 77});
  std::vector<std::unique_ptr<Own>> all;
  for (Rank r = 0; r < world; ++r) all.push_back(std::make_unique<Own>(r));
  OnRanks(
      network,
      [&](Communicator& communicator) {
        Own& own = *all[static_cast<std::size_t>(communicator.rank())];
        body(communicator, own);
        CHECK(own.device->GuardsIntact());
      },
      [&](CommunicatorOptions& options) {
        Own& own = *all[static_cast<std::size_t>(options.rank)];
        options.transport = std::make_shared<DeviceSendingTransport>(options.transport, own.adapters);
        options.device = own.device;
        options.device_window_bytes = kWindowBytes;
        if (adjust) adjust(options);
      });
  for (const auto& own : all) CHECK(own->adapters.registered() == 0);
}

plain::Case CaseOf(Collective collective, int world, std::uint64_t count = kElements) {
  plain::Case c;
  c.collective = collective;
  c.counts.assign(static_cast<std::size_t>(world), count);
  return c;
}

// The first operations open the lanes. Only a lane that is open may send device memory.
void Connect(Communicator& communicator, Own& own) {
  CHECK(RunCase(communicator, own, CaseOf(Collective::kAllGather, communicator.world_size(), 1)) == "");
  plain::Case gather = CaseOf(Collective::kGather, communicator.world_size(), 1);
  gather.algorithm = Algorithm::kDirect;
  CHECK(RunCase(communicator, own, gather) == "");
}

TEST_CASE("Every algorithm gives what it gives on the host, in windows of every number, in place or not") {
  for (const std::uint32_t rails : {1u, 2u})
    OnAdapters(
        3,
        [](Communicator& communicator, Own& own) {
          Sample sample(3);  // equal on every rank
          for (const AlgorithmEntry& entry : AllAlgorithms())
            for (const bool in_place : {false, true})
              for (const std::uint64_t count : {0u, 1u, 700u, 2100u}) {
                if (!sample.Takes()) continue;
                if (in_place && !HasInPlace(entry.collective)) continue;
                plain::Case c = CaseOf(entry.collective, 3, count);
                c.algorithm = entry.algorithm;
                c.in_place = in_place;
                c.root = 1;
                CAPTURE(plain::Describe(c));
                CHECK(RunCase(communicator, own, c) == "");
              }
          CHECK(own.adapters.bytes_sent() > 0);
        },
        [rails](CommunicatorOptions& options) {
          options.rails = rails;
          options.least_rail_bytes = 1024;
        });
}

TEST_CASE("Blocks with counts of their own") {
  OnAdapters(3, [](Communicator& communicator, Own& own) {
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter, Collective::kGather,
                                        Collective::kScatter, Collective::kAllToAll})
      for (const plain::Counts& counts : {plain::Counts{1, 0, 5}, plain::Counts{300, 7000, 20}}) {
        plain::Case c;
        c.collective = collective;
        c.varying = true;
        c.counts = counts;
        CAPTURE(plain::Describe(c));
        CHECK(RunCase(communicator, own, c) == "");
      }
  });
}

TEST_CASE("What a rank only gives away is not copied to the host; what it gets of it itself is, once") {
  OnAdapters(3, [](Communicator& communicator, Own& own) {
    Connect(communicator, own);
    const auto copied = [&](const plain::Case& c) {
      CAPTURE(plain::Describe(c));
      const std::uint64_t before = own.device->bytes_to_host();
      const std::uint64_t sent = own.adapters.bytes_sent();
      CHECK(RunCase(communicator, own, c) == "");
      if (communicator.rank() != c.root || c.collective != Collective::kGather) CHECK(own.adapters.bytes_sent() > sent);
      return own.device->bytes_to_host() - before;
    };
    CHECK(copied(CaseOf(Collective::kAllGather, 3)) == kBytes);
    plain::Case gather = CaseOf(Collective::kGather, 3);
    gather.algorithm = Algorithm::kDirect;
    CHECK(copied(gather) == (communicator.rank() == 0 ? kBytes : 0));
    CHECK(communicator.DescribePaths().find(
              communicator.rank() == 0 ? "memory of the plain device: staged through the host"
                                       : "memory of the plain device: sent directly by adapters") != std::string::npos);
  });
}

TEST_CASE("The root of a broadcast in place copies nothing") {
  OnAdapters(3, [](Communicator& communicator, Own& own) {
    Connect(communicator, own);
    plain::Case c = CaseOf(Collective::kBroadcast, 3);
    c.in_place = true;
    for (const Rank root : {0, 1, 0}) {
      c.root = root;
      c.algorithm = Algorithm::kDirect;
      if (FindAlgorithm(c.collective, *c.algorithm) == nullptr) c.algorithm = Algorithm::kTree;
      CHECK(RunCase(communicator, own, c) == "");  // the communicator's lanes are open now
      const std::uint64_t before = own.device->bytes_to_host();
      CHECK(RunCase(communicator, own, c) == "");
      if (communicator.rank() == root) CHECK(own.device->bytes_to_host() == before);
    }
  });
}

class Lines final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines_ += std::string(text) + '\n';
  }
  std::string all() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

TEST_CASE("Where adapters take no such memory it goes through host memory, and each allocation is asked for once") {
  Lines lines;
  const auto refused = [](Communicator& communicator, Own& own) {
    own.adapters.Refuse();
    PlainDeviceMemory& input = own.Holding(plain::Values(kElements, communicator.rank()));
    PlainDeviceMemory& output = own.device->Allocate(2 * kBytes);
    for (int round = 0; round < 3; ++round)
      CHECK(TextOf(communicator.AllGather(input.address(), output.address(), kElements, DataType::kInt64,
                                          own.options())) == "ok");
    CHECK(own.adapters.asked() == 1);
    CHECK(own.adapters.bytes_sent() == 0);
    CHECK(communicator.DescribePaths().find("staged through the host\n") != std::string::npos);
  };
  OnAdapters(2, refused, [&](CommunicatorOptions& options) { options.logger = &lines; });
  for (const char* const rank : {"rank 0", "rank 1"})
    CHECK(lines.all().find(std::string(rank) + ": memory of the plain device is not sent directly: these "
                                               "adapters take no memory of devices") != std::string::npos);
}

TEST_CASE("Where a lane sends no such memory, or a processor is to look at it, it goes through host memory") {
  for (const bool checksums : {false, true})
    OnAdapters(
        2,
        [checksums](Communicator& communicator, Own& own) {
          if (!checksums) own.adapters.SetSending(false);
          for (int round = 0; round < 2; ++round)
            CHECK(RunCase(communicator, own, CaseOf(Collective::kAllGather, 2)) == "");
          CHECK(own.adapters.bytes_sent() == 0);
        },
        [checksums](CommunicatorOptions& options) { options.checksums = checksums; });
}

TEST_CASE("What is widened or compared goes through host memory") {
  OnAdapters(2, [](Communicator& communicator, Own& own) {
    Connect(communicator, own);
    const std::uint64_t sent = own.adapters.bytes_sent();
    const std::vector<std::uint16_t> halves(kElements, 0x3F80);  // 1.0 in bfloat16
    PlainDeviceMemory& input = own.Holding(halves.data(), 2 * kElements);
    PlainDeviceMemory& output = own.device->Allocate(2 * kElements);
    OperationOptions options = own.options();
    options.fp32_accumulate = true;
    CHECK(TextOf(communicator.Reduce(input.address(), output.address(), kElements, DataType::kBfloat16, ReduceOp::kSum,
                                     0, options)) == "ok");
    options = own.options();
    options.compare_results = true;
    CHECK(TextOf(communicator.Broadcast(input.address(), input.address(), kElements, DataType::kBfloat16, 0,
                                        options)) == "ok");
    CHECK(own.adapters.bytes_sent() == sent);
  });
}

TEST_CASE("Memory at the address of memory that was freed is other memory, and what is gone is let go") {
  OnAdapters(2, [](Communicator& communicator, Own& own) {
    Connect(communicator, own);
    PlainDeviceMemory& output = own.device->Allocate(2 * kBytes);
    for (std::int64_t round = 0; round < 20; ++round) {
      PlainDeviceMemory& input = own.Holding(plain::Values(kElements, 10 * round + communicator.rank()));
      CHECK(TextOf(communicator.AllGather(input.address(), output.address(), kElements, DataType::kInt64,
                                          own.options())) == "ok");
      own.stream.Run();
      plain::Values wanted(kElements, 10 * round);
      wanted.resize(2 * kElements, 10 * round + 1);
      CHECK(ValuesOf(output) == wanted);
      own.device->Free(input);
    }
    CHECK(own.adapters.registered() < 8);
  });
}

TEST_CASE("What lay there before is not sent in its place while others are under way") {
  OnAdapters(2, [](Communicator& communicator, Own& own) {
    Connect(communicator, own);
    const auto gather = [&](PlainDeviceMemory& input, PlainDeviceMemory& output) {
      return communicator.AllGatherAsync(input.address(), output.address(), kElements, DataType::kInt64, own.options());
    };
    PlainDeviceMemory& outputs = own.device->Allocate(2 * kBytes);
    PlainDeviceMemory& before = own.Holding(plain::Values(kElements, 7));
    CHECK(TextOf(gather(before, outputs).Wait()) == "ok");
    own.stream.Run();

    PlainDeviceMemory& other = own.Holding(plain::Values(kElements, 8));
    PlainDeviceMemory& of_other = own.device->Allocate(2 * kBytes);
    own.stream.Hold(true);
    Work under_way = gather(other, of_other);
    const std::byte* const place = before.address();
    own.device->Free(before);
    PlainDeviceMemory& after = own.Holding(plain::Values(kElements, 9));
    CHECK(after.address() == place);
    Work last = gather(after, outputs);
    own.stream.Hold(false);
    CHECK(TextOf(under_way.Wait()) == "ok");
    CHECK(TextOf(last.Wait()) == "ok");
    own.stream.Run();
    CHECK(ValuesOf(outputs) == plain::Values(2 * kElements, 9));
  });
}

TEST_CASE("No more allocations stay known than are worth it") {
  OnAdapters(2, [](Communicator& communicator, Own& own) {
    for (std::size_t i = 0; i < 2 * DeviceRegistrations::kMaxKept; ++i)
      CHECK(RunCase(communicator, own, CaseOf(Collective::kAllGather, 2, 10)) == "");
    CHECK(own.adapters.registered() <= static_cast<int>(DeviceRegistrations::kMaxKept));
    CHECK(own.adapters.registered() > 1);
  });
}

}  // namespace device_sending_test
}  // namespace rondo
