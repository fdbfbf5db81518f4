// Wraps every other transport in a faulty transport. An empty fault plan must change nothing. Other plans slice writes
// and stall lanes, which the contract of a lane allows.
#include <utility>

#include "base/check.h"
#include "tests/conformance/conformance.h"
#include "transport/fault/faulty_transport.h"
#include "transport/inproc/inproc.h"
#include "transport/shm/shm.h"
#include "transport/sim/sim.h"
#include "transport/tcp/tcp.h"

namespace rondo::conformance {
namespace {

std::shared_ptr<fault::FaultInjector> InjectorOf(const std::string& plan) {
  auto parsed = fault::ParseFaultPlan(plan);
  RONDO_CHECK(parsed, "{}", parsed.error().ToString());
  return std::make_shared<fault::FaultInjector>(*std::move(parsed));
}

// A network that wraps the transport of each rank.
class FaultyTestNetwork : public TestNetwork {
 public:
  explicit FaultyTestNetwork(const std::string& plan) : injector_(InjectorOf(plan)) {}
  std::shared_ptr<Transport> transport(Rank rank) override { return transports_[static_cast<std::size_t>(rank)]; }

 protected:
  void Wrap(std::shared_ptr<Transport> inner) {
    auto faulty = MakeFaultyTransport(std::move(inner), injector_);
    RONDO_CHECK(faulty, "{}", faulty.error().ToString());
    transports_.push_back(std::move(*faulty));
  }

 private:
  const std::shared_ptr<fault::FaultInjector> injector_;
  std::vector<std::shared_ptr<Transport>> transports_;
};

class InprocInside final : public FaultyTestNetwork {
 public:
  InprocInside(int world_size, const std::string& plan, const InprocOptions& options)
      : FaultyTestNetwork(plan), network_(world_size, options) {
    for (Rank rank = 0; rank < world_size; ++rank) Wrap(network_.transport(rank));
  }
  bool Kill(Rank rank) override {
    network_.Kill(rank);
    return true;
  }

 private:
  InprocNetwork network_;
};

class SimInside final : public FaultyTestNetwork {
 public:
  SimInside(const std::string& plan, const SimOptions& options) : FaultyTestNetwork(plan), network_(options) {
    for (Rank rank = 0; rank < options.world_size; ++rank) Wrap(network_.transport(rank));
  }
  TimePoint Now() override { return network_.clock()->Now(); }
  void Advance() override { network_.Step(); }
  bool Kill(Rank rank) override {
    network_.Kill(rank, network_.clock()->Now());
    return true;
  }

 private:
  SimNetwork network_;
};

class TcpInside final : public FaultyTestNetwork {
 public:
  TcpInside(int world_size, const std::string& plan, const TcpOptions& options, bool with_shared_memory)
      : FaultyTestNetwork(plan) {
    for (Rank rank = 0; rank < world_size; ++rank) {
      auto transport = MakeTcpTransport(options);
      RONDO_CHECK(transport, "{}", transport.error().ToString());
      if (with_shared_memory) {
        transport = MakeShmTransport(*transport, {.host_id = LocalHostId()});
        RONDO_CHECK(transport, "{}", transport.error().ToString());
      }
      Wrap(*transport);
    }
  }
};

Fixture Named(std::string name) {
  Fixture fixture;
  fixture.name = std::move(name);
  return fixture;
}

Fixture OverInproc(const std::string& plan, const InprocOptions& options) {
  Fixture fixture = Named("inproc, plan '" + plan + "'");
  fixture.make = [=](int world_size) { return std::make_unique<InprocInside>(world_size, plan, options); };
  fixture.max_bytes_ahead = options.ring_bytes;
  if (!plan.empty()) fixture.traffic_bytes = 8192;  // with few bytes per call, less traffic reaches the edge cases
  fixture.reads_source_late = options.reluctant;
  return fixture;
}

Fixture OverSim(const std::string& plan, const SimOptions& options) {
  Fixture fixture = Named("sim, plan '" + plan + "'");
  fixture.make = [=](int world_size) {
    SimOptions sized = options;
    sized.world_size = world_size;
    return std::make_unique<SimInside>(plan, sized);
  };
  fixture.threads = false;
  fixture.max_bytes_ahead = options.buffer_bytes;
  if (!plan.empty()) fixture.traffic_bytes = 8192;
  return fixture;
}

Fixture OverTcp(const std::string& plan, bool with_shared_memory) {
  Fixture fixture = Named((with_shared_memory ? "shm, plan '" : "tcp, plan '") + plan + "'");
  if (!plan.empty()) fixture.traffic_bytes = 64 * 1024;
  TcpOptions options{.job = "conformance", .host_id = LocalHostId(), .socket_buffer_bytes = 64 * 1024};
  fixture.make = [=](int world_size) {
    return std::make_unique<TcpInside>(world_size, plan, options, with_shared_memory);
  };
  return fixture;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  const InprocOptions awkward{.ring_bytes = 4096,
                              .late_release = true,
                              .slice_bytes = 50,
                              .reluctant = true,
                              .push = true,
                              .refuse_windows = 0.3,
                              .slow_connect_polls = 5};
  // The stalls last 0 ms, that is, until the owner has polled. Longer stalls would mislead the suite. It would believe
  // that a lane is full, or that a new lane, which then refuses its first byte, is broken.
  return {
      OverInproc("", {}),
      OverInproc("", awkward),
      OverInproc("slice@all:1", {.ring_bytes = 1024}),
      OverInproc("slice@all:7; stall@lane(0->1):bytes=100,for_ms=0", {.ring_bytes = 4096, .late_release = true}),
      OverInproc("slice@lane(1->0):3; stall@all:bytes=500,for_ms=0", awkward),
      OverSim("", {.buffer_bytes = 4096, .late_release = true}),
      OverSim("slice@all:1; stall@all:bytes=50,for_ms=0", {.buffer_bytes = 1024}),
      OverTcp("", false),
      OverTcp("slice@all:1000; stall@all:bytes=2000,for_ms=0", false),
      OverTcp("", true),
      OverTcp("slice@all:1000; stall@lane(0->1):bytes=1500,for_ms=0", true),
  };
}

}  // namespace rondo::conformance
