// Measures every algorithm of every collective at every size. `rondo tune` makes profiles from the times, and judges
// the library's choices by them. Every rank of a communicator must make the same calls.
//
// One round measures everything once, and rounds follow each other. A disturbance, such as two ranks that temporarily
// share a core, then affects a few rounds of every size. Otherwise it would affect all rounds of a few sizes.
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
  bool with_choice = false;                                // also measure the library's own choice, twice in each round
};

// The times of one size. A time is the median within a round, where each iteration counts with its slowest rank.
struct SweepRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes = 0;
  struct Way {
    Algorithm algorithm = Algorithm::kRing;
    std::vector<double> us;  // by round; from the third round on, hopelessly slow algorithms are not measured
    double Us() const;       // median over all rounds
  };
  std::vector<Way> forced;  // every algorithm that supports the collective
  // With with_choice: the library's choice, and its times at the begin and at the end of each round.
  Algorithm chosen = Algorithm::kRing;
  std::vector<double> chosen_first_us, chosen_last_us;

  const Way& Best() const;
  double ChosenUs() const;  // median over both lists
  double Noise() const;     // the ratio of the medians of both lists, at least 1
  // Whether the choice is bad: it is not the best algorithm and takes over 10% longer than it. That must hold in four
  // of five rounds and after noise is taken into account.
  bool Missed() const;
};

// Runs one round: every algorithm at every size once. Adds to `rows`, which must be empty or the result of earlier
// rounds with the same options in the same world.
Status SweepOnce(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                 std::vector<SweepRow>& rows);

// Converts the rows of one world to the form in which a profile stores them.
std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Place& place);

}  // namespace rondo
