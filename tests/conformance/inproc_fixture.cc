// The in-process transport with default options, in every mode, and in useful combinations of modes.
#include "tests/conformance/conformance.h"
#include "transport/inproc/inproc.h"

namespace rondo::conformance {
namespace {

class InprocTestNetwork final : public TestNetwork {
 public:
  InprocTestNetwork(int world_size, const InprocOptions& options) : network_(world_size, options) {}
  std::shared_ptr<Transport> transport(Rank rank) override { return network_.transport(rank); }
  bool Kill(Rank rank) override {
    network_.Kill(rank);
    return true;
  }

 private:
  InprocNetwork network_;
};

Fixture Of(std::string name, InprocOptions options) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.make = [options](int world_size) { return std::make_unique<InprocTestNetwork>(world_size, options); };
  fixture.max_bytes_ahead = options.ring_bytes;
  // With only a few bytes per call, less traffic is enough to reach the edge cases.
  if (options.slice_bytes != 0) fixture.traffic_bytes = 4096 * options.slice_bytes;
  fixture.reads_source_late = options.reluctant;
  return fixture;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  return {
      Of("plain", {}),
      Of("smallest ring", {.ring_bytes = 64}),
      Of("late release", {.ring_bytes = 4096, .late_release = true}),
      Of("slices of 1 byte", {.ring_bytes = 1024, .slice_bytes = 1}),
      Of("slices of 7 bytes, slow connect", {.ring_bytes = 1024, .slice_bytes = 7, .slow_connect_polls = 20}),
      Of("reluctant", {.ring_bytes = 4096, .reluctant = true}),
      Of("reluctant, late release, slices",
         {.ring_bytes = 4096, .late_release = true, .slice_bytes = 3, .reluctant = true}),
      Of("push", {.ring_bytes = 4096, .push = true}),
      Of("push, refused windows, slices", {.ring_bytes = 4096, .slice_bytes = 5, .push = true, .refuse_windows = 0.3}),
      Of("reluctant push", {.ring_bytes = 4096, .reluctant = true, .push = true}),
      Of("reluctant push, late release",
         {.ring_bytes = 64 * 1024, .late_release = true, .reluctant = true, .push = true}),
      Of("everything", {.ring_bytes = 2048,
                        .late_release = true,
                        .slice_bytes = 4,
                        .reluctant = true,
                        .push = true,
                        .refuse_windows = 0.3,
                        .slow_connect_polls = 5}),
  };
}

}  // namespace rondo::conformance
