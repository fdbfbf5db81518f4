// Every algorithm of every collective beside every other, size by size: what `rondo tune` learns from, and what it
// judges the library's choices by. Every rank of a communicator makes the same calls.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "collectives/model/profile.h"

namespace rondo {

struct SweepOptions {
  std::vector<Collective> collectives;
  std::uint64_t min_bytes = 4;
  std::uint64_t max_bytes = 16 << 20;
  std::uint64_t step_factor = 4;
  int rounds = 5;                                          // over all algorithms of one size, before the next size
  Duration time_per_round = std::chrono::milliseconds(8);  // of one algorithm
  bool with_choice = false;                                // the library's own choice too, twice
};

// One size. Times are medians over the rounds of each round's median; each is that of the slowest rank.
struct SweepRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes = 0;
  struct Time {
    Algorithm algorithm = Algorithm::kRing;
    double us = 0;
  };
  std::vector<Time> forced;  // every algorithm that serves the collective
  // With the choice: what it was, its time over both measurements, and by what factor these two differ.
  Algorithm chosen = Algorithm::kRing;
  double chosen_us = 0;
  double noise = 1;

  const Time& Best() const;
  // The choice costs more than 10% over the best algorithm, and noise does not explain it.
  bool Missed() const { return chosen_us > 1.1 * noise * Best().us; }
};

// `done` hears of every row, on every rank.
Result<std::vector<SweepRow>> Sweep(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                                    const std::function<void(const SweepRow&)>& done);

// The rows of one world as a profile keeps them.
std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Place& place);

}  // namespace rondo
