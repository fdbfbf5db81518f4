// Measures every algorithm of every collective at every size. `rondo tune` makes profiles from the times, or uses them
// to judge the library's choices. Every rank of a communicator must make the same calls.
//
// One round measures everything once, and there are several rounds. So a temporary disturbance, such as two ranks that
// share a CPU core, affects a few rounds of every size. Otherwise it could affect all measurements of a few sizes.
#pragma once

#include <cstdint>
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
  Duration time_per_round = std::chrono::milliseconds(8);  // for one algorithm
  bool with_choice = false;  // true: the library's own choice is also measured, twice in each round
};

// The times of one size. A time is the median of the iterations of a round. The time of an iteration is that of its
// slowest rank.
struct SweepRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes = 0;
  struct Way {
    Algorithm algorithm = Algorithm::kRing;
    // One time for each round; from the third round on, algorithms that are far too slow are not measured.
    std::vector<double> us;
    double Us() const;  // median over all rounds
  };
  std::vector<Way> forced;  // every algorithm that supports the collective
  // If with_choice is set: the algorithm that the library chose, and its times at the beginning and at the end of each
  // round.
  Algorithm chosen = Algorithm::kRing;
  std::vector<double> chosen_first_us, chosen_last_us;

  const Way& Best() const;
  double ChosenUs() const;  // median over the two chosen_..._us lists
  double Noise() const;     // the ratio of the medians of the two chosen_..._us lists, at least 1
  // Whether the library's choice is bad: it is not the best algorithm, and it takes more than 1.1 * Noise() times as
  // long as the best one. This must be true of the median times, and of the times in at least four of five rounds.
  bool Missed() const;
};

// Runs one round: every algorithm at every size once. Adds the times to `rows`, which must be empty or the result of
// earlier rounds with the same options in the same world.
Status SweepOnce(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                 std::vector<SweepRow>& rows);

// Converts the rows of one world to the form in which a profile stores them.
std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Topology& topology);

}  // namespace rondo
