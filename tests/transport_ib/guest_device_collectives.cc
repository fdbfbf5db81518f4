// Tests collectives on memory of devices, which adapters send without a copy. The verbs are real, and the devices are
// fakes in host memory (tests/support/plain_device.h). Soft-RoCE registers pages only if this process may access them,
// so the pages are accessible during the registration. Any later access by the process crashes it.
//
// Must run as root in a virtual machine of tools/dev/lab/rdma_vm (tests/vm).
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/communicator/own_device.h"
#include "tests/communicator/plain.h"
#include "tests/support/passing_transport.h"
#include "tests/support/threads.h"
#include "transport/device_memory.h"
#include "transport/ib/ib.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

constexpr std::uint64_t kWindowBytes = 256 * 1024;
constexpr std::uint64_t kCount = 100'000;  // needs several staging buffers

class OpeningTransport final : public PassingTransport, private DeviceRegistrar {
 public:
  using PassingTransport::PassingTransport;

  int registered() const { return registered_; }
  DeviceRegistrar* device_registrar() override { return this; }

 private:
  Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) override {
    ++registered_;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.bytes.data()) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(memory.bytes.data()) + memory.bytes.size();
    auto* const pages = reinterpret_cast<void*>(begin);
    REQUIRE(mprotect(pages, end - begin, PROT_READ | PROT_WRITE) == 0);
    auto made = inner().device_registrar()->RegisterDevice(memory);
    REQUIRE(mprotect(pages, end - begin, PROT_NONE) == 0);
    return made;
  }

  std::atomic<int> registered_{0};
};

// Two ranks, each with its own fake device.
template <typename Body>
void OnBoth(Body body) {
  std::vector<std::shared_ptr<OpeningTransport>> transports;
  std::vector<PeerIdentity> peers;
  for (const std::string port : {"rxe0", "rxe1"}) {
    TcpOptions tcp;
    tcp.job = "device collectives";
    tcp.host_id = LocalHostId();
    auto base = MakeTcpTransport(tcp);
    REQUIRE(base);
    auto made = MakeIbTransport(*base, {.port = port, .device_memory = DeviceMemoryChoice::kPeerMemory});
    REQUIRE_MESSAGE(made, made.error().ToString());
    transports.push_back(std::make_shared<OpeningTransport>(*made));
    peers.push_back({.host = "host of " + port, .host_id = port, .pid = 1, .address = transports.back()->Address()});
  }
  std::barrier<> end(2);
  OnThreads(2, [&](int rank) {
    OwnDevice own(rank);
    CommunicatorOptions options;
    options.rank = rank;
    options.peers = peers;
    options.transport = transports[static_cast<std::size_t>(rank)];
    options.timeout = std::chrono::seconds(60);
    options.device = own.device;
    options.device_window_bytes = kWindowBytes;
    auto communicator = Communicator::Create(std::move(options));
    REQUIRE(communicator);
    body(**communicator, own, *transports[static_cast<std::size_t>(rank)]);
    CHECK(own.device->GuardsIntact());
    CHECK((*communicator)->Close());
    end.arrive_and_wait();
  });
}

plain::Case CaseOf(Collective collective) {
  plain::Case c;
  c.collective = collective;
  c.counts.assign(2, kCount);
  return c;
}

TEST_CASE("every collective is right on memory of devices, and what is only given away is sent from where it lies") {
  OnBoth([](Communicator& communicator, OwnDevice& own, const OpeningTransport& transport) {
    for (int round = 0; round < 2; ++round)
      for (const Collective collective : kCollectives)
        for (const bool in_place : {false, true}) {
          plain::Case c = CaseOf(collective);
          c.in_place = in_place;
          c.root = round;
          CAPTURE(plain::Describe(c));
          CHECK(RunCase(communicator, own, c) == "");
        }
    CHECK(transport.registered() > 0);
    const std::uint64_t before = own.device->bytes_to_host();
    CHECK(RunCase(communicator, own, CaseOf(Collective::kAllGather)) == "");
    // Only the block that the rank itself contributes may have moved to the host.
    CHECK(own.device->bytes_to_host() - before == kCount * sizeof(std::int64_t));
    CHECK(communicator.DescribePaths().find("sent directly by adapters") != std::string::npos);
    plain::Case broadcast = CaseOf(Collective::kBroadcast);
    broadcast.in_place = true;
    const std::uint64_t behind = own.device->bytes_to_host();
    CHECK(RunCase(communicator, own, broadcast) == "");
    CHECK(own.device->bytes_to_host() == behind);
  });
}

}  // namespace
}  // namespace rondo
