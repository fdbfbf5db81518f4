// The suite that every transport must pass: one set of tests, written against transport.h and lane.h alone. It runs
// over the networks that a fixture file lists. A new transport adds about twenty lines, for example
//
//   std::vector<Fixture> Fixtures() {
//     return {{.name = "mine", .make = [](int world_size) { return std::make_unique<MyTestNetwork>(world_size); }}};
//   }
//
// and a cc_test of that file with //tests/conformance:suite. The helpers (world.h, traffic.h) detect misuse of memory:
// buffers have guard bytes, sources are overwritten as soon as they are released, and windows (buffers passed to
// Lane::Expect) are freed as soon as they are revoked.
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

// N ranks that use the same kind of transport, for the suite.
class TestNetwork {
 public:
  virtual ~TestNetwork() = default;

  // Returns the same transport at every call for a rank.
  virtual std::shared_ptr<Transport> transport(Rank rank) = 0;

  // The time that is passed to Endpoint::Poll.
  virtual TimePoint Now() { return SteadyClock().Now(); }

  // Called between rounds of polling, so that events outside of the suite's thread can happen. A simulation steps to
  // its next event. The default yields the core, for transports that use threads or a kernel.
  virtual void Advance();

  // Kills the process of a rank. False: the suite destroys the rank's endpoints instead, which has the same effect on
  // peers.
  virtual bool Kill(Rank) { return false; }
};

struct Fixture {
  std::string name;
  std::function<std::unique_ptr<TestNetwork>(int world_size)> make;

  // True: different threads may poll the ranks, and wait_fd() returns a descriptor.
  bool threads = true;
  // The maximum number of bytes that one direction of a lane may accept before the peer has read any.
  std::uint64_t max_bytes_ahead = 64u << 20;
  // The number of bytes that each traffic test sends per direction. It should be small if every call moves only one
  // byte.
  std::uint64_t traffic_bytes = 256 * 1024;
  // If true, the receiver reads the sender's memory late, so the suite must detect a sender that overwrites memory too
  // early. This tests the suite itself.
  bool reads_source_late = false;
  // If an event takes longer than this, the test fails.
  std::chrono::seconds patience{30};
};

// Each fixture file defines this function.
std::vector<Fixture> Fixtures();

}  // namespace rondo::conformance
