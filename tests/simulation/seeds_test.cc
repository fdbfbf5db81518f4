// Simulates thousands of jobs, with delays, bytes that arrive in slices, clogged links and killed ranks. Every result
// must be a correct sum or an error that names the dead rank, and no job may hang. A failing seed prints the command
// that replays it.
//
//   RONDO_SEEDS=20000   number of seeds (default: 2000, fewer under a sanitizer)
//   RONDO_SEED=17       only this seed
#include "tests/simulation/seeds.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/simulation/scenario.h"

namespace rondo {
namespace seeds_test {

TEST_CASE("every seed gives right sums or an error that names the dead rank, and never a hang") {
  const std::uint64_t only = test::NumberFrom("RONDO_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t last = only != 0 ? only : test::SeedsFrom(2000);
  std::uint64_t kills = 0, failed_ranks = 0, slices = 0, clogs = 0, full_writes = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const ScenarioOutcome outcome = RunScenario({.seed = seed});
    CHECK_MESSAGE(outcome.violation.empty(), outcome.violation, "\n  replay: RONDO_SEED=", seed,
                  " bazel-bin/tests/simulation/simulation_test --source-file=*/seeds_test.cc");
    kills += outcome.killed;
    failed_ranks += static_cast<std::uint64_t>(outcome.failed_ranks);
    slices += outcome.counters.slices;
    clogs += outcome.counters.clogs;
    full_writes += outcome.counters.full_writes;
  }
  if (only != 0) return;
  // The seeds must really have produced the faults.
  CHECK(kills > last / 10);
  CHECK(failed_ranks > kills / 2);
  CHECK(slices > last);
  CHECK(clogs > last / 10);
  CHECK(full_writes > last);
  MESSAGE(last, " seeds: ", kills, " kills hit a working job, ", failed_ranks, " survivors failed, ", slices,
          " sliced deliveries, ", clogs, " clogs, ", full_writes, " writes into full buffers");
}

TEST_CASE("one seed replays to the same trace") {
  for (const std::uint64_t seed : {3, 17, 1234}) {
    const ScenarioOutcome a = RunScenario({.seed = seed});
    const ScenarioOutcome b = RunScenario({.seed = seed});
    CHECK(a.trace_hash == b.trace_hash);
    CHECK(a.failed_ranks == b.failed_ranks);
  }
}

}  // namespace seeds_test
}  // namespace rondo
