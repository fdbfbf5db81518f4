// rondo verify: proves that every algorithm is correct, and shows that the proof rejects broken schedules.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "collectives/algorithms/formulas.h"
#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"

namespace rondo {
namespace {

struct VerifyFlags {
  int max_ranks = 33;
  std::string collective = "all";
  std::string algorithm = "all";
  bool mutations = false;

  bool Wants(const AlgorithmEntry& entry) const {
    return (collective == "all" || collective == Name(entry.collective)) &&
           (algorithm == "all" || algorithm == Name(entry.algorithm));
  }
};

constexpr int kMaxRanks = 128;  // limited because the work grows with the fourth power of the number of ranks
constexpr int kLargeWorlds[] = {1000, 1024, 4096};
constexpr int kRanksPerHost = 8;  // for the large worlds
// The largest world for algorithms in which even a few chunks involve all pairs of ranks (ConnectsAllPairs). The proof
// of these chunks takes time and memory that grow with the square of the world size.
constexpr int kLargestSampleOfPairs = 256;
constexpr int kMutatedWorlds = 9;
constexpr int kAttempts = 4;
constexpr std::uint64_t kSeed = 1;

constexpr const char* kRow = "{:<14}  {:<18}  {:>9}  {:<42}  {:<42}  {:>5}  {}\n";

bool ConnectsAllPairs(const AlgorithmEntry& entry) {
  return entry.algorithm == Algorithm::kPairwise ||
         (entry.algorithm == Algorithm::kDirect && entry.collective == Collective::kAllReduce);
}

std::string_view OperandsOf(const AlgorithmEntry& entry) {
  if (!Reduces(entry.collective)) return "";
  if (entry.traits.left_fold) return "left fold";
  return entry.traits.rank_order ? "in the ranks' order" : "each chunk in its own order";
}

// The progress line on stderr, if stderr is a terminal.
class Steps {
 public:
  Steps(const Clock& clock, std::size_t total) : progress_(clock, total) {}
  void Next(const AlgorithmEntry& entry, std::string_view what) {
    progress_.Update(done_++, fmt::format("{} {}, {}", Name(entry.collective), Name(entry.algorithm), what));
  }
  void Clear() { progress_.Clear(); }

 private:
  ProgressLine progress_;
  std::size_t done_ = 0;
};

// The number of calls of Steps::Next by Prove and Mutate for one algorithm.
std::size_t StepsPerAlgorithm(const VerifyFlags& flags) {
  return static_cast<std::size_t>(flags.max_ranks) + std::size(kLargeWorlds) + (flags.mutations ? 1 : 0);
}

Status Prove(const AlgorithmEntry& entry, const VerifyFlags& flags, Steps& steps) {
  std::uint64_t schedules = 0;
  Proof proof;
  for (int world = 1; world <= flags.max_ranks; ++world) {
    steps.Next(entry, fmt::format("{} ranks", world));
    RONDO_ASSIGN(const WorldProof proved, ProveWorld(entry, world));
    schedules += proved.schedules;
    proof = proved.proof;
  }
  for (const int large : kLargeWorlds) {
    const int world = ConnectsAllPairs(entry) ? std::min(large, kLargestSampleOfPairs) : large;
    steps.Next(entry, fmt::format("{} ranks", world));
    std::vector<int> hosts;
    for (int rank = 0; rank < world; ++rank) hosts.push_back(rank / kRanksPerHost);
    RONDO_TRY(ProveSamples(entry, {.collective = entry.collective,
                                   .algorithm = entry.algorithm,
                                   .world_size = world,
                                   .root = HasRoot(entry.collective) ? world / 2 : 0,
                                   .in_place = HasInPlace(entry.collective),
                                   .hosts = entry.algorithm == Algorithm::kHierarchical ? &hosts : nullptr}));
    if (world < large) break;
  }
  const World largest{.size = flags.max_ranks};
  const AlgorithmCost cost = *PaperCost(entry.collective, entry.algorithm, largest);
  const double vectors_sent =
      static_cast<double>(proof.max_chunks_sent) /
      static_cast<double>(ChunksOfVector(entry.collective, largest.size, ChunksOf(entry, largest)));
  steps.Clear();
  fmt::print(kRow, Name(entry.collective), Name(entry.algorithm), schedules,
             fmt::format("{} {} {}", proof.rounds, cost.rounds_are_a_bound ? ":" : "=", cost.rounds_formula),
             fmt::format("{:.4g} = {}", vectors_sent, cost.sent_formula), proof.max_peers, OperandsOf(entry));
  return {};
}

Status Mutate(const AlgorithmEntry& entry, std::vector<MutationReport>& totals, Steps& steps) {
  steps.Next(entry, "broken on purpose");
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
  const auto all = AllAlgorithms();
  if (std::none_of(all.begin(), all.end(), [&](const AlgorithmEntry& entry) { return flags.Wants(entry); })) {
    PrintError("rondo verify: algorithm {} does not support {}\n", flags.algorithm, flags.collective);
    return kExitWrongUsage;
  }
  std::vector<MutationReport> mutants;
  fmt::print(kRow, "", "", "schedules", fmt::format("rounds, P = {}", flags.max_ranks), "sent by a rank, vectors",
             "lanes", "operands combined");
  std::vector<AlgorithmEntry> wanted;
  for (const AlgorithmEntry& entry : all)
    if (flags.Wants(entry)) wanted.push_back(entry);
  const SteadyClock clock;
  Steps steps(clock, wanted.size() * StepsPerAlgorithm(flags));
  for (const AlgorithmEntry& entry : wanted) {
    Status status = Prove(entry, flags, steps);
    if (status && flags.mutations) status = Mutate(entry, mutants, steps);
    steps.Clear();
    if (!status) {
      PrintError("rondo verify: {}\n", status.error().message());
      return kExitFailed;
    }
  }
  fmt::print(
      "\nProved of each, in every world of 1 to {} ranks, for every root, in and out of place, plain and scaled:\n"
      "  each send has its receive; some order of all steps exists that needs no buffer; no two steps race on a byte;\n"
      "  every rank ends with the blocks it is owed, every contribution once, in the documented order.\n"
      "Rounds and what is sent are of the largest world, its last root, out of place.\n{}"
      "And in worlds of {} ranks ({} where all pairs are connected): the same of sampled chunks through all ranks, and "
      "the lanes\n"
      "of sampled ranks.\n",
      flags.max_ranks, kFormulaWords, fmt::join(kLargeWorlds, ", "), kLargestSampleOfPairs);
  if (!flags.mutations) return kExitDone;

  fmt::print("\nBroken on purpose, worlds of 1 to {} ranks, seed {}; each was refused:\n", kMutatedWorlds, kSeed);
  for (const MutationReport& report : mutants) {
    fmt::print("  {:6} x {}\n", report.refused, report.name);
    if (report.refused > 0) fmt::print("           {}\n", report.counter_example);
  }
  return kExitDone;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verify = app.add_subcommand("verify", "Prove every algorithm, or give a counter-example");
  AddNumber(
      *verify, "--max-ranks", [flags](std::int64_t ranks) { flags->max_ranks = static_cast<int>(ranks); }, 1, kMaxRanks,
      "The largest world to prove in full (default 33)");
  std::vector<std::string> collectives{"all"}, algorithms{"all"};
  for (const Collective collective : DistinctCollectives()) collectives.emplace_back(Name(collective));
  for (const Algorithm algorithm : DistinctAlgorithms()) algorithms.emplace_back(Name(algorithm));
  AddChoice(
      *verify, "--collective", [flags](const std::string& name) { flags->collective = name; }, collectives,
      "Only the algorithms of this collective (default all)");
  AddChoice(
      *verify, "--algorithm", [flags](const std::string& name) { flags->algorithm = name; }, algorithms,
      "Only this algorithm (default all)");
  verify->add_flag("--mutations", flags->mutations, "Also check that schedules broken on purpose are refused");
  verify->callback([flags, &exit_code] { exit_code = RunVerify(*flags); });
}

}  // namespace rondo
