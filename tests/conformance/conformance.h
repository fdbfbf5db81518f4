// The suite that every transport passes: one set of test bodies, written against transport.h and lane.h alone, run over
// the networks that a fixture file names. A new transport adds about twenty lines, for example
//
//   std::vector<Fixture> Fixtures() {
//     return {{.name = "mine", .make = [](int world_size) { return std::make_unique<MyTestNetwork>(world_size); }}};
//   }
//
// and a cc_test of that file with //tests/conformance:suite. Traps are in the helpers (world.h, traffic.h): buffers
// have guard bytes, sources are overwritten the moment they are released, windows are freed the moment they are
// revoked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "transport/transport.h"

namespace rondo::conformance {

// N ranks of one transport, as the suite needs them.
class TestNetwork {
 public:
  virtual ~TestNetwork() = default;

  // The same one at every call.
  virtual std::shared_ptr<Transport> transport(Rank rank) = 0;

  // What Endpoint::Poll is given.
  virtual TimePoint Now() { return SteadyClock().Now(); }

  // Called between rounds of polling: lets something happen outside of the suite's thread. A simulation steps to its
  // next event; transports with threads of their own or a kernel give the core away (world.h does: default).
  virtual void Advance();

  // Makes the process of a rank die. False: the suite destroys the rank's endpoints instead, which looks the same.
  virtual bool Kill(Rank) { return false; }
};

struct Fixture {
  std::string name;
  std::function<std::unique_ptr<TestNetwork>(int world_size)> make;

  // Ranks may be driven by different threads, and wait_fd() is a descriptor.
  bool threads = true;
  // The most that one direction of a lane may accept before the peer has read anything.
  std::uint64_t max_bytes_ahead = 64u << 20;
  // How much each traffic test sends per direction; small where every call moves a byte.
  std::uint64_t traffic_bytes = 256 * 1024;
  // The receiver looks at the sender's memory when it reads, so overwriting early must show (the suite's own check).
  bool reads_source_late = false;
  // How long anything may take before it counts as lost.
  std::chrono::seconds patience{30};
};

// Defined by the fixture file.
std::vector<Fixture> Fixtures();

}  // namespace rondo::conformance
