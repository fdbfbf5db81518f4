// N ranks in one thread on virtual time, from one seed: the same contract as every other transport, on a network whose
// delays, short deliveries, clogs and deaths are drawn at random and can be replayed. One seed gives one trace, on
// every machine: trace_hash() says so.
//
//   SimNetwork network({.world_size = 4, .seed = 7, .link = {.max_slice_bytes = 100, .clog_probability = 0.01}});
//   network.Kill(2, network.clock()->Now() + 3ms);
//   while (!done) {
//     for (Rank rank : network.RanksToPoll()) Drive(rank);   // polls its endpoints, moves its engine
//     if (!network.Step()) break;                            // nothing will ever happen any more
//   }
//
// A direction of a lane is a bounded buffer, as two sockets are: Write copies, the bytes arrive some virtual time
// later, room comes back when the receiver's acknowledgement does. Order is kept within a lane and within the control
// messages of a pair; nothing else has an order. Observers are called from inside Endpoint::Poll.
//
// Thread rule: one thread for the network and everything made from it, also where transport.h says any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "transport/transport.h"

namespace rondo {

class SimCore;

// How bytes get from one rank to another. Every delay is drawn uniformly from its range.
struct SimLink {
  Duration min_delay = std::chrono::microseconds(1);
  Duration max_delay = std::chrono::microseconds(50);
  Duration min_connect = std::chrono::microseconds(1);  // from Open to kOpen, and to the peer's knowing of it
  Duration max_connect = std::chrono::microseconds(200);
  std::uint64_t bytes_per_second = 0;  // shared by all lanes of the link; 0: without limit
  std::size_t max_slice_bytes = 0;     // bytes arrive in pieces of a random 1..max_slice_bytes; 0: as they were written
  double clog_probability = 0;         // of each delivery: the link stands still for a while
  Duration min_clog = std::chrono::microseconds(100);
  Duration max_clog = std::chrono::milliseconds(5);
};

struct SimOptions {
  int world_size = 0;  // at least 1
  std::uint64_t seed = 1;
  SimLink link;                          // of every ordered pair, until SetLink
  std::size_t buffer_bytes = 64 * 1024;  // per direction of a lane: a multiple of kLineBytes, at least one
  bool late_release = false;             // released() follows the receiver's acknowledgement, as with retransmission
  Duration min_loss_delay{};             // from a death to each peer's hearing of it, on top of the link's delay
  Duration max_loss_delay = std::chrono::milliseconds(1);
  std::uint32_t max_lanes = 4096;      // per endpoint; one more gives kResource
  std::shared_ptr<ManualClock> clock;  // moved by Step; null: a clock of its own
};

// What happened so far. A test of a fault asserts that it fired.
struct SimCounters {
  std::uint64_t events = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t slices = 0;  // deliveries shorter than what was waiting
  std::uint64_t clogs = 0;
  std::uint64_t kills = 0;
  std::uint64_t losses = 0;       // OnPeerLost calls made
  std::uint64_t full_writes = 0;  // calls that took less than offered because the buffer was full
  auto operator<=>(const SimCounters&) const = default;
};

class SimNetwork {
 public:
  // REQUIRES: sound options.
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  int world_size() const;
  const std::shared_ptr<ManualClock>& clock() const;
  // The same one at every call. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> transport(Rank rank) const;

  // For what is sent from now on.
  void SetLink(Rank from, Rank to, const SimLink& link);

  // From `at` on nothing that the rank writes leaves it and nothing reaches it. What it had written still arrives, then
  // its peers' lanes fail and OnPeerLost is told (kPeerLost, culprit: the rank), to each peer after a delay of its own.
  // The dead rank itself notices nothing.
  void Kill(Rank rank, TimePoint at);
  // Anything else that is to happen at a time, in the same queue.
  void At(TimePoint when, std::function<void()> action);

  // The time of the next event; nullopt when nothing is under way.
  std::optional<TimePoint> NextEventTime() const;
  // Moves the clock to the next event and lets it happen. False: there was none.
  bool Step();

  // The living ranks with an endpoint to which something happened since its last Poll, in order.
  std::vector<Rank> RanksToPoll() const;

  // Of every event so far: its time, what it was, whom it concerned, how many bytes.
  std::uint64_t trace_hash() const;
  SimCounters counters() const;

 private:
  std::shared_ptr<SimCore> core_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
