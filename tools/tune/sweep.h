// Every algorithm of every collective beside every other, size by size: what `rondo tune` learns from, and what it
// judges the library's choices by. Every rank of a communicator makes the same calls.
//
// A round goes over everything, and rounds follow one another, so that the moods of a machine (and which ranks happen
// to share a core) hit few rounds of every size and not all rounds of few.
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
  Duration time_per_round = std::chrono::milliseconds(8);  // of one algorithm
  bool with_choice = false;                                // the library's own choice too, twice in a round
};

// One size. Each time is that of the slowest rank, the median within its round.
struct SweepRow {
  Collective collective = Collective::kAllReduce;
  std::uint64_t bytes = 0;
  struct Way {
    Algorithm algorithm = Algorithm::kRing;
    std::vector<double> us;  // by round; one that is hopeless is left out from the third round on
    double Us() const;       // the median over rounds
  };
  std::vector<Way> forced;  // every algorithm that serves the collective
  // With the choice: what it was, and its times at the begin and at the end of each round.
  Algorithm chosen = Algorithm::kRing;
  std::vector<double> chosen_first_us, chosen_last_us;

  const Way& Best() const;
  double ChosenUs() const;  // the median over all
  double Noise() const;     // by what factor the medians of first and last differ
  // The choice is another than the best algorithm, costs more than 10% over it, noise does not explain it, and it is so
  // in four of five rounds.
  bool Missed() const;
};

// One round: every algorithm at every size once. Adds to `rows`, which are empty or what a round of the same options in
// the same world left.
Status SweepOnce(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                 std::vector<SweepRow>& rows);

// The rows of one world as a profile keeps them.
std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Place& place);

}  // namespace rondo
