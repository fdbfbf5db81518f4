// The simulated network: without disturbance, with single-byte slices, with links that stop for a while (clogs), with
// late release, and with tiny buffers.
#include "tests/conformance/conformance.h"
#include "transport/sim/sim.h"

namespace rondo::conformance {
namespace {

class SimTestNetwork final : public TestNetwork {
 public:
  explicit SimTestNetwork(const SimOptions& options) : network_(options) {}
  std::shared_ptr<Transport> transport(Rank rank) override { return network_.transport(rank); }
  TimePoint Now() override { return network_.clock()->Now(); }
  void Advance() override { network_.Step(); }
  bool Kill(Rank rank) override {
    network_.Kill(rank, network_.clock()->Now());
    return true;
  }

 private:
  SimNetwork network_;
};

Fixture Of(std::string name, const SimOptions& options) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.make = [options](int world_size) {
    SimOptions sized = options;
    sized.world_size = world_size;
    return std::make_unique<SimTestNetwork>(sized);
  };
  fixture.threads = false;
  fixture.max_bytes_ahead = options.buffer_bytes;
  if (options.link.max_slice_bytes != 0) fixture.traffic_bytes = 4096 + 256 * options.link.max_slice_bytes;
  return fixture;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  std::vector<Fixture> fixtures;
  SimOptions calm;
  fixtures.push_back(Of("calm", calm));
  SimOptions tiny = calm;
  tiny.buffer_bytes = 64;
  tiny.late_release = true;
  fixtures.push_back(Of("smallest buffer, late release", tiny));
  SimOptions bytewise = calm;
  bytewise.link.max_slice_bytes = 1;
  bytewise.buffer_bytes = 1024;
  fixtures.push_back(Of("slices of 1 byte", bytewise));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SimOptions rough = calm;
    rough.seed = seed;
    rough.link.max_slice_bytes = 100 * seed;
    rough.link.clog_probability = 0.02;
    rough.link.bytes_per_second = 100'000'000;
    rough.buffer_bytes = 4096;
    rough.late_release = seed % 2 == 1;
    fixtures.push_back(Of("rough, seed " + std::to_string(seed), rough));
  }
  return fixtures;
}

}  // namespace rondo::conformance
