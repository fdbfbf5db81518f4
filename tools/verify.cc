// rondo verify: proves every algorithm, and that the proof can fail.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/algorithms/formulas.h"
#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/mutate.h"
#include "tools/commands.h"
#include "tools/flags.h"

namespace rondo {
namespace {

struct VerifyFlags {
  int max_ranks = 33;
  std::string algorithm = "all";
  bool mutations = false;
};

constexpr int kMaxRanks = 128;  // the work grows with the fourth power
constexpr int kLargeWorlds[] = {1000, 1024, 4096};
constexpr int kMutatedWorlds = 9;
constexpr int kAttempts = 4;
constexpr std::uint64_t kSeed = 1;

// "1 + 7/8" reads worse than "1.875".
std::string Text(const Fraction& fraction) { return fmt::format("{:.4g}", fraction.value()); }

Status Prove(const AlgorithmEntry& entry, const VerifyFlags& flags) {
  std::uint64_t schedules = 0;
  Proof proof;
  for (int world = 1; world <= flags.max_ranks; ++world) {
    RONDO_ASSIGN(const WorldProof proved, ProveWorld(entry, world));
    schedules += proved.schedules;
    proof = proved.proof;
  }
  for (const int world : kLargeWorlds) {
    const Rank root = entry.collective == Collective::kBroadcast ? world / 2 : 0;
    RONDO_TRY(ProveSamples(entry, {.collective = entry.collective,
                                   .algorithm = entry.algorithm,
                                   .world_size = world,
                                   .root = root,
                                   .in_place = true}));
  }
  const AlgorithmCost cost = *PaperCost(entry.collective, entry.algorithm, flags.max_ranks);
  const bool reduces = entry.collective == Collective::kAllReduce;
  fmt::print("{} {}: {} schedules proved\n", Name(entry.collective), Name(entry.algorithm), schedules);
  fmt::print("  rounds at P = {}: {} = {}\n", flags.max_ranks, proof.rounds, cost.rounds_formula);
  fmt::print("  sent by a rank, vectors: {} = {}\n", Text(cost.sent), cost.sent_formula);
  fmt::print("  lanes of a rank, at most: {}\n", proof.max_peers);
  if (reduces) {
    fmt::print("  operands: the same expression on every rank, {}\n",
               proof.in_rank_order ? "in the order of ranks" : "each chunk in an order of its own");
  }
  return {};
}

Status Mutate(const AlgorithmEntry& entry, std::vector<MutationReport>& totals) {
  RONDO_ASSIGN(const auto reports, RefuseMutants(entry, kMutatedWorlds, kAttempts, kSeed));
  totals.resize(reports.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    totals[i].name = reports[i].name;
    totals[i].refused += reports[i].refused;
    if (!reports[i].counter_example.empty()) totals[i].counter_example = reports[i].counter_example;
  }
  return {};
}

int RunVerify(const VerifyFlags& flags) {
  std::vector<MutationReport> mutants;
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    if (flags.algorithm != "all" && flags.algorithm != Name(entry.algorithm)) continue;
    Status status = Prove(entry, flags);
    if (status && flags.mutations) status = Mutate(entry, mutants);
    if (!status) {
      fmt::print(stderr, "rondo verify: {}\n", status.error().message());
      return 1;
    }
  }
  fmt::print(
      "\nProved of each: every world of 1 to {} ranks, every root, in place and out of place, plain and scaled; worlds "
      "of "
      "{} ranks at\nsampled chunks and lanes. Each send has its receive; no cycle without buffering; no race on a "
      "byte; "
      "every contribution once.\n",
      flags.max_ranks, fmt::join(kLargeWorlds, ", "));
  if (!flags.mutations) return 0;

  fmt::print("\nBroken on purpose, worlds of 1 to {} ranks, seed {}; each was refused:\n", kMutatedWorlds, kSeed);
  for (const MutationReport& report : mutants) {
    fmt::print("  {:6} x {}\n", report.refused, report.name);
    if (report.refused > 0) fmt::print("           {}\n", report.counter_example);
  }
  return 0;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify = app.add_subcommand("verify", "Prove every algorithm, or give a counter-example");
  AddNumber(
      *verify, "--max-ranks", [flags](std::int64_t ranks) { flags->max_ranks = static_cast<int>(ranks); }, 1, kMaxRanks,
      "The largest world to prove in full (default 33)");
  std::set<std::string> names{"all"};
  for (const AlgorithmEntry& entry : AllAlgorithms()) names.emplace(Name(entry.algorithm));
  AddChoice(
      *verify, "--algorithm", [flags](const std::string& name) { flags->algorithm = name; },
      std::vector<std::string>(names.begin(), names.end()), "Only this one (default all)");
  verify->add_flag("--mutations", flags->mutations, "Also break schedules on purpose, and show that each is refused");
  verify->callback([flags, &exit_code] { exit_code = RunVerify(*flags); });
}

}  // namespace rondo
