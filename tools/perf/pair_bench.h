// Measures latency and bandwidth between two ranks with messages: as round trips, in each direction alone, and in both
// directions at once. Every rank of the communicator makes the same calls; ranks that are not in the pair return at
// once.
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
  // If set, it replaces the time: the number of round trips, and the number of messages in each of the other three
  // measurements.
  std::optional<std::uint64_t> iterations;
  // Untimed round trips or messages before each measurement. nullopt: 20 round trips, and `in_flight` messages.
  std::optional<std::uint64_t> warmup;
  bool check = true;  // true: check all bytes of one round of messages in both directions
};

struct PairRow {
  Rank low = 0;
  Rank high = 1;
  std::uint32_t rail = 0;  // the rail of the measurement
  // Half of the time of a round trip (a message and its answer).
  double latency_min_us = 0;
  double latency_median_us = 0;
  double latency_p99_us = 0;
  // bandwidth from low to high; the measured time ends when low knows that all messages have arrived
  double up_GBps = 0;
  double down_GBps = 0;        // from high to low
  double both_GBps = 0;        // the sum of the bandwidths of both directions, measured at the same time
  std::uint64_t wrong_up = 0;  // wrong bytes in the checked round, counted by the receiver
  std::uint64_t wrong_down = 0;
};

class PairBench {
 public:
  // REQUIRES: communicator and clock outlive this object.
  PairBench(Communicator& communicator, const Clock& clock, const PairOptions& options);

  // Measures one pair. Both ranks of the pair get the row. But only `low` gets the latencies, and each rank counts only
  // the wrong bytes that it received itself. An error means that a message failed. REQUIRES: low < high.
  Result<PairRow> Measure(Rank low, Rank high);

 private:
  struct Flow {
    std::uint64_t messages = 0;
    double seconds = 0;
  };

  Status PingPong(Rank peer, bool leads, std::uint64_t times, TimeSamples* round_trips_us);
  // Makes round trips for about options.time, or exactly options.iterations round trips if that is set.
  Result<TimeSamples> TimedPingPong(Rank peer, bool leads);
  // Sends `messages` messages, receives as many, or both, with `in_flight` messages at once in each direction. The
  // sender returns when the receiver has confirmed all messages.
  Status Stream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // Does the same as Stream and measures the time. Both ends return the same time.
  Result<Flow> TimedStream(Rank peer, bool sends, bool receives, std::uint64_t messages);
  // Streams messages for about options.time, or exactly options.iterations messages if that is set.
  Result<Flow> Timed(Rank peer, bool leads, bool sends, bool receives);
  // Returns how many more messages or round trips fit into the remaining time, after `done` of them took `seconds` by
  // the leader's clock. 0: the time has passed.
  Result<std::uint64_t> AgreeOnMore(Rank peer, bool leads, std::uint64_t done, double seconds);
  // Returns the leader's value on both ranks.
  Result<std::uint64_t> Agree(Rank peer, bool leads, std::uint64_t value);
  Status Allocate();
  void Fill(Rank from);
  std::uint64_t CountWrong(Rank from) const;

  Communicator& communicator_;
  const Clock& clock_;
  const PairOptions options_;
  // out_ and in_ are allocated by Communicator::Allocate, as in a program that wants the fastest transfer.
  std::unique_ptr<Memory> out_;
  std::unique_ptr<Memory> in_;  // space for `in_flight` messages
};

}  // namespace rondo
