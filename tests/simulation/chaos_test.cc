// Hundreds of whole jobs under faults: every survivor gets a correct error in time, and continues after the job is
// repaired (simulation/chaos.h). A failing seed prints the command that replays it.
//
//   RONDO_SEEDS=20000   number of seeds (default: 500, fewer under a sanitizer)
//   RONDO_SEED=17       the first seed
#include "simulation/chaos.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "tests/simulation/seeds.h"

namespace rondo::simulation {
namespace chaos_test {

TEST_CASE("every seed is safe under its faults, and goes on once they are healed") {
  const std::uint64_t first = test::NumberFrom("RONDO_SEED", 1);
  const std::uint64_t seeds = test::SeedsFrom(500, test::kJobsAreFewerBy);
  FiberStacks stacks;
  SimCounters sum;
  std::uint64_t unharmed = 0, failed = 0, corrupt = 0, named_next = 0, stalled = 0, went_on = 0, stopped = 0;
  int largest = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const ChaosOptions options{.seed = seed};
    const ChaosOutcome outcome = RunChaos(stacks, options);
    CHECK_MESSAGE(outcome.violation.empty(), "seed ", seed, ": ", outcome.violation,
                  "\n  replay: ", ReplayCommand(options));
    sum.kills += outcome.counters.kills;
    sum.pauses += outcome.counters.pauses;
    sum.cuts += outcome.counters.cuts;
    sum.flips += outcome.counters.flips;
    sum.held_back += outcome.counters.held_back;
    sum.clogs += outcome.counters.clogs;
    sum.silences += outcome.counters.silences;
    sum.hellos += outcome.counters.hellos;
    sum.refusals += outcome.counters.refusals;
    sum.unknown += outcome.counters.unknown;
    sum.full_writes += outcome.counters.full_writes;
    unharmed += static_cast<std::uint64_t>(outcome.unharmed);
    failed += static_cast<std::uint64_t>(outcome.failed);
    corrupt += static_cast<std::uint64_t>(outcome.corrupt);
    named_next += static_cast<std::uint64_t>(outcome.named_next);
    stalled += outcome.stalled_requests;
    went_on += static_cast<std::uint64_t>(outcome.went_on);
    stopped += static_cast<std::uint64_t>(outcome.stopped);
    largest = std::max(largest, outcome.world_size);
  }
  // The faults must really have happened.
  if (seeds >= 200) {
    for (const std::uint64_t fired :
         {sum.kills, sum.pauses, sum.cuts, sum.flips, sum.held_back, sum.clogs, sum.silences, sum.hellos, sum.refusals,
          sum.unknown, sum.full_writes, stalled, corrupt, went_on, stopped})
      CHECK(fired > 0);
    CHECK(sum.kills > seeds / 10);
    CHECK(unharmed > seeds);
    CHECK(failed > seeds / 2);
    CHECK(largest == kMaxRanks);
  }
  MESSAGE(seeds, " seeds: ", unharmed, " ranks did all they had to, ", failed, " survivors got an error, ", corrupt,
          " of them of damaged frames, ", named_next, " of the rank that they waited for; ", went_on,
          " rebuilt and went on, ", stopped, " could not; ", sum.kills, " kills, ", sum.pauses, " pauses, ", sum.cuts,
          " connections cut, ", sum.flips, " bits turned, ", sum.held_back, " events held back, ", sum.silences,
          " silences, ", sum.refusals, " clients refused, ", sum.unknown, " unknown clients, ", stalled,
          " requests of the store stalled");
}

TEST_CASE("the outcome of a scenario's only fault says whether it fired, what the survivors got, and how late") {
  FiberStacks stacks;
  std::map<std::string_view, std::uint64_t> fired;
  for (std::uint64_t seed = 1; seed <= 400 / test::kJobsAreFewerBy; ++seed) {
    const ChaosOutcome outcome = RunChaos(stacks, {.seed = seed});
    if (!outcome.lone) continue;
    CAPTURE(seed);
    const LoneFault& lone = *outcome.lone;
    CHECK(lone.unharmed == outcome.unharmed);
    CHECK(static_cast<int>(lone.errors.size()) == outcome.failed);
    CHECK((lone.last_error_after == Duration::zero() || !lone.errors.empty()));
    if (lone.fired == 0) CHECK(lone.errors.empty());
    fired[lone.kind] += lone.fired;
    for (const std::string_view harmless : {"short_pause", "delays", "foreign_client"})
      if (lone.kind == harmless) CHECK(lone.errors.empty());
    if (lone.kind != "kill") continue;
    for (const ErrorCode code : lone.errors)
      CHECK((code == ErrorCode::kPeerLost || code == ErrorCode::kRendezvousTimeout || code == ErrorCode::kStoreLost));
  }
  if (test::kJobsAreFewerBy > 1) return;  // too few jobs for every kind of fault
  for (const std::string_view kind :
       {"kill", "pause", "short_pause", "delays", "cut_lane", "flip_header", "store_kill"}) {
    CAPTURE(kind);
    CHECK(fired[kind] > 0);
  }
}

TEST_CASE("a seed gives one scenario, and another seed another") {
  FiberStacks stacks;
  for (const std::uint64_t seed : {3, 17, 1234}) {
    const ChaosOutcome once = RunChaos(stacks, {.seed = seed});
    CHECK(once.trace_hash == RunChaos(stacks, {.seed = seed}).trace_hash);
    CHECK(once.trace_hash != RunChaos(stacks, {.seed = seed + 1}).trace_hash);
  }
}

TEST_CASE("the scenario is logged on demand, and that changes nothing") {
  FiberStacks stacks;
  std::string log;
  const ChaosOutcome traced =
      RunChaos(stacks, {.seed = 5, .trace = [&](const std::string& line) { log += line + "\n"; }});
  CHECK(log.find("planned: ") != std::string::npos);
  CHECK(log.find("all faults have ended") != std::string::npos);
  CHECK(traced.trace_hash == RunChaos(stacks, {.seed = 5}).trace_hash);
}

// If one of these faults were not detected, the scenarios would prove nothing.
TEST_CASE("a fault of Rondo's own is caught within 200 seeds") {
  FiberStacks stacks;
  for (const Negative negative : AllNegatives()) {
    CAPTURE(Name(negative));
    std::uint64_t caught = 0;
    for (std::uint64_t seed = 1; seed <= 200 && caught == 0; ++seed)
      if (!RunChaos(stacks, {.seed = seed, .negative = negative}).violation.empty()) caught = seed;
    CHECK(caught > 0);
  }
}

}  // namespace chaos_test
}  // namespace rondo::simulation
