// What two ranks reach between them, by messages: latency there and back, bandwidth each way and both ways at once.
// Every rank of the communicator makes the same calls; those who are not of the pair return at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf/time_samples.h"

namespace rondo {

struct PairOptions {
  std::uint64_t latency_bytes = 8;
  std::uint64_t bandwidth_bytes = 1 << 20;         // of a message
  int in_flight = 8;                               // messages at once, in each direction
  Duration time = std::chrono::milliseconds(200);  // of each of the four measurements, at least
  // In place of the time: so many round trips, and so many messages of each of the other three.
  std::optional<std::uint64_t> iterations;
  // So many of the same before each, which are not counted. nullopt: 20 round trips, and `in_flight` messages.
  std::optional<std::uint64_t> warmup;
  bool check = true;  // the bytes of one round of each
};

struct PairRow {
  Rank low = 0;
  Rank high = 1;
  std::uint32_t rail = 0;  // by which they were measured
  // Half of a message there and an answer back.
  double latency_min_us = 0;
  double latency_median_us = 0;
  double latency_p99_us = 0;
  double up_GBps = 0;          // from low to high, with the last message's arrival told
  double down_GBps = 0;        // from high to low
  double both_GBps = 0;        // both at once, added up
  std::uint64_t wrong_up = 0;  // bytes of the checked round, as the receiver found them
  std::uint64_t wrong_down = 0;
};

class PairBench {
 public:
  // REQUIRES: communicator and clock outlive it.
  PairBench(Communicator& communicator, const Clock& clock, const PairOptions& options);

  // The row is complete on both ranks of the pair, but latency, which the lower has, and wrong bytes, which each has of
  // what it received. An error: a message failed. REQUIRES: low < high.
  Result<PairRow> Measure(Rank low, Rank high);

 private:
  struct Flow {
    std::uint64_t messages = 0;
    double seconds = 0;
  };

  Status PingPong(Rank peer, bool leads, std::uint64_t times, TimeSamples* round_trips_us);
  // For about options.time, or options.iterations round trips.
  Result<TimeSamples> TimedPingPong(Rank peer, bool leads);
  // So many messages that way, `in_flight` of them at once; returns when the other side has told of the last.
  Status Stream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // The same, and how long it took, as both ends know it.
  Result<Flow> TimedStream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // Stream for about options.time, or of options.iterations messages.
  Result<Flow> Timed(Rank peer, bool leads, bool sends, bool receives);
  // How many more there is time for, by the leader's clock, after so many in that many seconds; 0: the time is over.
  Result<std::uint64_t> AgreeOnMore(Rank peer, bool leads, std::uint64_t done, double seconds);
  // What the leader says.
  Result<std::uint64_t> Agree(Rank peer, bool leads, std::uint64_t value);
  Status Allocate();
  void Fill(Rank from);
  std::uint64_t CountWrong(Rank from) const;

  Communicator& communicator_;
  const Clock& clock_;
  const PairOptions options_;
  // Of the communicator, as of a program that wants the most of it.
  std::unique_ptr<Memory> out_;
  std::unique_ptr<Memory> in_;  // `in_flight` messages
};

}  // namespace rondo
