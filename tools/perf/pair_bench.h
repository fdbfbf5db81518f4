// Measures latency and bandwidth between two ranks by messages: there and back, each way, and both ways at once. Every
// rank of the communicator makes the same calls; ranks that are not in the pair return at once.
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
  std::uint64_t bandwidth_bytes = 1 << 20;         // size of a message
  int in_flight = 8;                               // messages in flight at once, in each direction
  Duration time = std::chrono::milliseconds(200);  // minimum duration of each of the four measurements
  // Replaces the time: the number of round trips, and of messages in each of the other three measurements.
  std::optional<std::uint64_t> iterations;
  // Untimed round trips or messages before each measurement. nullopt: 20 round trips, and `in_flight` messages.
  std::optional<std::uint64_t> warmup;
  bool check = true;  // compare all bytes of one round of messages in both directions
};

struct PairRow {
  Rank low = 0;
  Rank high = 1;
  std::uint32_t rail = 0;  // the rail of the measurement
  // Half of the time of a message there and an answer back.
  double latency_min_us = 0;
  double latency_median_us = 0;
  double latency_p99_us = 0;
  double up_GBps = 0;          // from low to high; the time ends when low knows that the last message has arrived
  double down_GBps = 0;        // from high to low
  double both_GBps = 0;        // both ways at once, sum of both directions
  std::uint64_t wrong_up = 0;  // wrong bytes in the checked round, counted by the receiver
  std::uint64_t wrong_down = 0;
};

class PairBench {
 public:
  // REQUIRES: communicator and clock outlive this object.
  PairBench(Communicator& communicator, const Clock& clock, const PairOptions& options);

  // Measures one pair. Both ranks of the pair get the row; only `low` gets the latencies, and each rank counts only the
  // wrong bytes that it received. An error means that a message failed. REQUIRES: low < high.
  Result<PairRow> Measure(Rank low, Rank high);

 private:
  struct Flow {
    std::uint64_t messages = 0;
    double seconds = 0;
  };

  Status PingPong(Rank peer, bool leads, std::uint64_t times, TimeSamples* round_trips_us);
  // Makes round trips for about options.time, or options.iterations of them.
  Result<TimeSamples> TimedPingPong(Rank peer, bool leads);
  // Sends that many messages, receives that many, or both; `in_flight` at once in each direction. The sender returns
  // when the receiver has confirmed the last one.
  Status Stream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // Does the same and measures the time. Both ends return the same time.
  Result<Flow> TimedStream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // Streams messages for about options.time, or options.iterations of them.
  Result<Flow> Timed(Rank peer, bool leads, bool sends, bool receives);
  // How many more there is time for, by the leader's clock, after `done` in `seconds`; 0: the time is over.
  Result<std::uint64_t> AgreeOnMore(Rank peer, bool leads, std::uint64_t done, double seconds);
  // Returns the leader's value on both ranks.
  Result<std::uint64_t> Agree(Rank peer, bool leads, std::uint64_t value);
  Status Allocate();
  void Fill(Rank from);
  std::uint64_t CountWrong(Rank from) const;

  Communicator& communicator_;
  const Clock& clock_;
  const PairOptions options_;
  // Memory from Communicator::Allocate, as in a program that wants the fastest transfer.
  std::unique_ptr<Memory> out_;
  std::unique_ptr<Memory> in_;  // space for `in_flight` messages
};

}  // namespace rondo
