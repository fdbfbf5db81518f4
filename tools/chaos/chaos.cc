// rondo chaos: simulates whole jobs under faults, on virtual time. A seed determines a simulation, called a story.
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

constexpr std::int64_t kMostSeeds = 1'000'000'000;

// Sums over the stories that had one fault only, for one kind of fault.
struct LoneSums {
  std::uint64_t stories = 0, fired = 0;  // `fired`: stories in which the fault fired; the fields below are about these
  std::uint64_t times = 0;               // how often it fired in total
  std::map<std::string, std::uint64_t> ranks;  // survivors by outcome: "correct", or the error's name
  Duration longest{};                          // from a fault until the last survivor returned an error

  void Add(const simulation::LoneFault& lone) {
    ++stories;
    if (lone.fired == 0) return;
    ++fired;
    times += lone.fired;
    if (lone.unharmed > 0) ranks["correct"] += static_cast<std::uint64_t>(lone.unharmed);
    for (const ErrorCode code : lone.errors) ++ranks[std::string(Name(code))];
    longest = std::max(longest, lone.told_after);
  }
};

struct Sums {
  std::uint64_t stories = 0, violations = 0, unharmed = 0, failed = 0, corrupt = 0, named_next = 0, went_on = 0,
                stopped = 0;
  SimCounters counters;
  std::map<std::string, LoneSums> lone;

  void Add(const ChaosOutcome& outcome) {
    ++stories;
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
      "{} stories, {} violations: {} ranks did all they had to, {} survivors were told an error ({} of them of damaged "
      "frames; {} named whom they waited for), {} rebuilt and went on under the faults, {} could not\n"
      "{} kills, {} pauses, {} connections cut, {} bits turned, {} events held back by partitions, {} clients refused, "
      "{} unknown clients\n",
      sums.stories, sums.violations, sums.unharmed, sums.failed, sums.corrupt, sums.named_next, sums.went_on,
      sums.stopped, sums.counters.kills, sums.counters.pauses, sums.counters.cuts, sums.counters.flips,
      sums.counters.held_back, sums.counters.refusals, sums.counters.unknown);
}

void PrintJson(const Sums& sums) {
  nlohmann::ordered_json faults = nlohmann::ordered_json::array();
  for (const auto& [kind, of] : sums.lone) {
    nlohmann::ordered_json fault{{"kind", kind}, {"stories", of.stories}, {"fired", of.fired}, {"times", of.times}};
    fault["ranks"] = of.ranks;
    fault["longest_ms"] = std::chrono::duration<double, std::milli>(of.longest).count();
    faults.push_back(std::move(fault));
  }
  const nlohmann::ordered_json all{
      {"stories", sums.stories}, {"violations", sums.violations}, {"unharmed", sums.unharmed}, {"failed", sums.failed},
      {"corrupt", sums.corrupt}, {"went_on", sums.went_on},       {"stopped", sums.stopped},   {"lone_faults", faults}};
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
      if (flags.trace) fmt::print("all is well; trace {:016x}\n", outcome.trace_hash);
      continue;
    }
    fmt::print(flags.json ? stderr : stdout, "seed {}: {}\n  replay: {}\n", seed, outcome.violation,
               ReplayCommand(options));
    if (flags.options.negative != Negative::kNone) {
      fmt::print("{} was caught after {} seeds\n", Name(flags.options.negative), sums.stories);
      return kExitDone;
    }
  }
  if (flags.options.negative != Negative::kNone) {
    PrintError("rondo chaos: {} was not caught in {} seeds\n", Name(flags.options.negative), sums.stories);
    return kExitFailed;
  }
  flags.json ? PrintJson(sums) : Print(sums);
  return sums.violations == 0 ? kExitDone : kExitFailed;
}

}  // namespace

void AddChaosCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ChaosFlags>();
  CLI::App* chaos = app.add_subcommand(
      "chaos", "Simulate whole jobs under faults: safe while they last, and going on when they are healed");
  AddNumber(
      *chaos, "--seed", [flags](std::int64_t seed) { flags->seed = static_cast<std::uint64_t>(seed); }, 1, kMostSeeds,
      "The story to tell; the same on every machine (default 1)");
  AddNumber(
      *chaos, "--seeds", [flags](std::int64_t seeds) { flags->seeds = static_cast<std::uint64_t>(seeds); }, 1,
      kMostSeeds, "How many stories, from that seed on (default 1)");
  AddNumber(
      *chaos, "--world", [flags](std::int64_t ranks) { flags->options.world_size = static_cast<int>(ranks); }, 1,
      simulation::kMostRanks, "So many ranks (default: drawn from the seed)");
  CLI::Option* trace =
      chaos->add_flag("--trace", flags->trace, "Tell what was planned, which faults fired, and what each rank got");
  CLI::Option* json = chaos->add_flag("--json", flags->json,
                                      "The sums as JSON, and of stories with a single fault what came of each kind");
  json->excludes(trace);
  std::vector<std::string> negatives;
  for (const Negative negative : simulation::AllNegatives()) negatives.emplace_back(Name(negative));
  AddChoice(
      *chaos, "--negative",
      [flags](const std::string& name) {
        for (const Negative negative : simulation::AllNegatives())
          if (name == Name(negative)) flags->options.negative = negative;
      },
      negatives, "Put a fault of Rondo's own in; it must be caught within the seeds, at which the run ends");
  json->excludes(chaos->get_option("--negative"));
  chaos->callback([flags, &exit_code] { exit_code = RunChaos(*flags); });
}

}  // namespace rondo
