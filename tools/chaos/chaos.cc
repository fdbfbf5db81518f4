// rondo chaos: simulates whole jobs under faults, on virtual time. A seed determines a scenario.
#include "simulation/chaos.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"

namespace rondo {
namespace {

using simulation::ChaosOptions;
using simulation::ChaosOutcome;
using simulation::Negative;

struct ChaosFlags {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  bool trace = false;
  bool json = false;
  ChaosOptions options;
};

constexpr std::int64_t kMaxSeeds = 1'000'000'000;

// Sums for one kind of fault, over the scenarios in which this was the only fault.
struct LoneSums {
  std::uint64_t scenarios = 0,
                fired = 0;  // `fired`: scenarios in which the fault took effect; the fields below cover only these
  std::uint64_t times = 0;  // how often the fault took effect in total
  std::map<std::string, std::uint64_t> ranks;  // survivors by outcome: "correct", or the error's name
  Duration longest{};  // the longest time from a fault until every survivor had returned an error

  void Add(const simulation::LoneFault& lone) {
    ++scenarios;
    if (lone.fired == 0) return;
    ++fired;
    times += lone.fired;
    if (lone.unharmed > 0) ranks["correct"] += static_cast<std::uint64_t>(lone.unharmed);
    for (const ErrorCode code : lone.errors) ++ranks[std::string(Name(code))];
    longest = std::max(longest, lone.last_error_after);
  }
};

struct Sums {
  std::uint64_t scenarios = 0, violations = 0, unharmed = 0, failed = 0, corrupt = 0, named_next = 0, went_on = 0,
                stopped = 0;
  SimCounters counters;
  std::map<std::string, LoneSums> lone;

  void Add(const ChaosOutcome& outcome) {
    ++scenarios;
    violations += !outcome.violation.empty();
    unharmed += static_cast<std::uint64_t>(outcome.unharmed);
    failed += static_cast<std::uint64_t>(outcome.failed);
    corrupt += static_cast<std::uint64_t>(outcome.corrupt);
    named_next += static_cast<std::uint64_t>(outcome.named_next);
    went_on += static_cast<std::uint64_t>(outcome.went_on);
    stopped += static_cast<std::uint64_t>(outcome.stopped);
    if (outcome.lone) lone[std::string(outcome.lone->kind)].Add(*outcome.lone);
    counters.kills += outcome.counters.kills;
    counters.pauses += outcome.counters.pauses;
    counters.cuts += outcome.counters.cuts;
    counters.flips += outcome.counters.flips;
    counters.held_back += outcome.counters.held_back;
    counters.refusals += outcome.counters.refusals;
    counters.unknown += outcome.counters.unknown;
  }
};

void Print(const Sums& sums) {
  fmt::print(
      "{} scenarios, {} violations: {} ranks completed all operations, {} survivors got an error ({} of these because "
      "of damaged frames; {} named the rank that they waited for), {} rebuilt and continued during the faults, {} "
      "could not\n{} kills, {} pauses, {} connections cut, {} bits flipped, {} events delayed by partitions, {} "
      "clients refused, {} unknown clients\n",
      sums.scenarios, sums.violations, sums.unharmed, sums.failed, sums.corrupt, sums.named_next, sums.went_on,
      sums.stopped, sums.counters.kills, sums.counters.pauses, sums.counters.cuts, sums.counters.flips,
      sums.counters.held_back, sums.counters.refusals, sums.counters.unknown);
}

void PrintJson(const Sums& sums) {
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (const auto& [kind, of] : sums.lone) {
    nlohmann::ordered_json fault{{"kind", kind}, {"scenarios", of.scenarios}, {"fired", of.fired}, {"times", of.times}};
    fault["ranks"] = of.ranks;
    fault["longest_ms"] = std::chrono::duration<double, std::milli>(of.longest).count();
    faults.push_back(std::move(fault));
  }
  const nlohmann::ordered_json all{{"scenarios", sums.scenarios}, {"violations", sums.violations},
                                   {"unharmed", sums.unharmed},   {"failed", sums.failed},
                                   {"corrupt", sums.corrupt},     {"went_on", sums.went_on},
                                   {"stopped", sums.stopped},     {"lone_faults", faults}};
  fmt::print("{}\n", all.dump(2));
}

int RunChaos(const ChaosFlags& flags) {
  simulation::FiberStacks stacks;
  Sums sums;
  for (std::uint64_t seed = flags.seed; seed < flags.seed + flags.seeds; ++seed) {
    ChaosOptions options = flags.options;
    options.seed = seed;
    if (flags.trace) {
      fmt::print("seed {}\n", seed);
      options.trace = [](const std::string& line) { fmt::print("{}\n", line); };
    }
    const ChaosOutcome outcome = simulation::RunChaos(stacks, options);
    sums.Add(outcome);
    if (outcome.violation.empty()) {
      if (flags.trace) fmt::print("no violation; hash of the trace: {:016x}\n", outcome.trace_hash);
      continue;
    }
    fmt::print(flags.json ? stderr : stdout, "seed {}: {}\n  replay: {}\n", seed, outcome.violation,
               ReplayCommand(options));
    if (flags.options.negative != Negative::kNone) {
      fmt::print("the inserted bug {} was detected after {} seeds\n", Name(flags.options.negative), sums.scenarios);
      return kExitDone;
    }
  }
  if (flags.options.negative != Negative::kNone) {
    PrintError("rondo chaos: the inserted bug {} was not detected in {} seeds\n", Name(flags.options.negative),
               sums.scenarios);
    return kExitFailed;
  }
  flags.json ? PrintJson(sums) : Print(sums);
  return sums.violations == 0 ? kExitDone : kExitFailed;
}

}  // namespace

void AddChaosCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ChaosFlags>();
  CLI::App* chaos = app.add_subcommand(
      "chaos",
      "Simulate whole jobs under faults, and check that they stay safe during the faults and continue afterwards");
  AddNumber(
      *chaos, "--seed", [flags](std::int64_t seed) { flags->seed = static_cast<std::uint64_t>(seed); }, 1, kMaxSeeds,
      "Seed of the first scenario; a seed gives the same scenario on every machine (default 1)");
  AddNumber(
      *chaos, "--seeds", [flags](std::int64_t seeds) { flags->seeds = static_cast<std::uint64_t>(seeds); }, 1,
      kMaxSeeds, "Number of scenarios; each one has the next seed (default 1)");
  AddNumber(
      *chaos, "--world", [flags](std::int64_t ranks) { flags->options.world_size = static_cast<int>(ranks); }, 1,
      simulation::kMaxRanks, "Number of ranks (default: drawn from the seed)");
  CLI::Option* trace = chaos->add_flag(
      "--trace", flags->trace, "Print the plan of the scenario, the faults that fired, and the outcome of each rank");
  CLI::Option* json = chaos->add_flag(
      "--json", flags->json,
      "Print the totals as JSON; for scenarios with a single fault, also print the outcomes by kind of fault");
  json->excludes(trace);
  std::vector<std::string> negatives;
  for (const Negative negative : simulation::AllNegatives()) negatives.emplace_back(Name(negative));
  AddChoice(
      *chaos, "--negative",
      [flags](const std::string& name) {
        for (const Negative negative : simulation::AllNegatives())
          if (name == Name(negative)) flags->options.negative = negative;
      },
      negatives, "Insert this bug into Rondo. The run ends when a scenario detects it, and fails if none does");
  json->excludes(chaos->get_option("--negative"));
  chaos->callback([flags, &exit_code] { exit_code = RunChaos(*flags); });
}

}  // namespace rondo
