// Simulates thousands of jobs that exchange messages, with delays, bytes that arrive in slices, clogged links and
// killed ranks. A failing seed prints the command that replays it.
//
//   RONDO_SEEDS=20000   number of seeds (default: 1000, fewer under a sanitizer)
//   RONDO_SEED=17       only this seed
#include <doctest/doctest.h>

#include <string>

#include "tests/simulation/messages_scenario.h"
#include "tests/simulation/seeds.h"

namespace rondo {
namespace messages_seeds_test {

TEST_CASE("every seed delivers every message in order or names the dead rank, and never hangs") {
  const std::uint64_t only = test::NumberFrom("RONDO_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t last = only != 0 ? only : test::SeedsFrom(1000);
  std::uint64_t kills = 0, failed = 0, received = 0, clogs = 0, full_writes = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const MessagesOutcome outcome = RunMessagesScenario(seed);
    CHECK_MESSAGE(outcome.violation.empty(), outcome.violation, "\n  replay: RONDO_SEED=", seed,
                  " bazel-bin/tests/simulation/simulation_test --source-file=*/messages_seeds_test.cc");
    kills += outcome.killed;
    failed += static_cast<std::uint64_t>(outcome.failed);
    received += static_cast<std::uint64_t>(outcome.received);
    clogs += outcome.counters.clogs;
    full_writes += outcome.counters.full_writes;
  }
  if (only != 0) return;
  // The seeds must really have produced the faults.
  CHECK(kills > last / 10);
  CHECK(failed > kills);
  CHECK(received > 10 * last);
  CHECK(clogs > last / 10);
  CHECK(full_writes > last);
  MESSAGE(last, " seeds: ", received, " messages, ", kills, " kills hit a working job, ", failed,
          " operations of survivors failed, ", clogs, " clogs, ", full_writes, " writes into full buffers");
}

TEST_CASE("one seed replays to the same trace") {
  for (const std::uint64_t seed : {3, 17, 1234})
    CHECK(RunMessagesScenario(seed).trace_hash == RunMessagesScenario(seed).trace_hash);
}

}  // namespace messages_seeds_test
}  // namespace rondo
