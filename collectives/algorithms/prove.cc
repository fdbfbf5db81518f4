#include "collectives/algorithms/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/random.h"
#include "collectives/algorithms/formulas.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/mutate.h"
#include "collectives/schedule/project.h"

namespace rondo {
namespace {

tl::unexpected<Error> Of(const ScheduleKey& key, const Error& error) {
  return Fail(ErrorCode::kInternal, "{}: {}", Describe(key), error.message());
}

// The depth of the brackets in "((0+1)+2)".
std::uint32_t Depth(const std::string& order) {
  std::uint32_t depth = 0, deepest = 0;
  for (const char c : order) {
    depth += c == '(' ? 1 : 0;
    depth -= c == ')' ? 1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

// The documented order as the proof of a scaled schedule prints it: "s(3)" for "3".
std::string Scaled(const std::string& order) {
  const auto is_digit = [&](std::size_t at) { return at < order.size() && order[at] >= '0' && order[at] <= '9'; };
  std::string scaled;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_digit(i) && (i == 0 || !is_digit(i - 1))) scaled += "s(";
    scaled += order[i];
    if (is_digit(i) && !is_digit(i + 1)) scaled += ")";
  }
  return scaled;
}

Status CompareWithPapers(const ScheduleKey& key, std::uint32_t chunks, const Proof& proof) {
  const World world = WorldOf(key);
  const auto cost = PaperCost(key.collective, key.algorithm, world);
  if (!cost) return Fail(ErrorCode::kInternal, "{}: its cost has no formula", Describe(key));
  if (cost->rounds_are_a_bound ? proof.rounds > cost->rounds : proof.rounds != cost->rounds) {
    return Fail(ErrorCode::kInternal, "{}: takes {} rounds, but the formula {} gives {}", Describe(key), proof.rounds,
                cost->rounds_formula, cost->rounds);
  }
  const std::uint32_t vector = ChunksOfVector(key.collective, world.size, chunks);
  if (proof.max_chunks_sent * cost->sent.denominator != cost->sent.numerator * vector) {
    return Fail(ErrorCode::kInternal, "{}: a rank sends {} of {} chunks, but the formula {} gives {}/{} of the vector",
                Describe(key), proof.max_chunks_sent, vector, cost->sent_formula, cost->sent.numerator,
                cost->sent.denominator);
  }
  if (!Reduces(key.collective)) return {};
  std::uint32_t deepest = 0;
  for (std::uint32_t c = 0; c < proof.order.size(); ++c) {
    const std::string order = DocumentedOrder(key.collective, key.algorithm, world, c);
    const std::string documented = key.scaled ? Scaled(order) : order;
    if (proof.order[c] != documented) {
      return Fail(ErrorCode::kInternal, "{}: chunk {} is {}, but {} is documented", Describe(key), c, proof.order[c],
                  documented);
    }
    deepest = std::max(deepest, Depth(order));
  }
  const std::uint32_t documented_depth = RoundingDepth(key.algorithm, world);
  if (!proof.order.empty() && deepest != documented_depth) {
    return Fail(ErrorCode::kInternal, "{}: operands are combined {} levels deep, but {} levels are documented",
                Describe(key), deepest, documented_depth);
  }
  return {};
}

// Whether some rank handles blocks that are neither in its input nor in its output, so that it might not know their
// lengths. In all_gather and reduce_scatter every rank knows all lengths.
bool HandlesForeignBlocks(const Schedule& schedule) {
  const Collective collective = schedule.key.collective;
  const std::uint32_t per_block = schedule.chunks / BlocksOf(collective, schedule.key.world_size);
  if (collective == Collective::kAllGather || collective == Collective::kReduceScatter) return false;
  for (const RankSchedule& rank : schedule.ranks) {
    const BlockSet input = InputBlocks(schedule.key, rank.rank), output = OutputBlocks(schedule.key, rank.rank);
    for (const Step& step : rank.steps) {
      for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
        if (!input.Contains(c / per_block) && !output.Contains(c / per_block)) return true;
      }
    }
  }
  return false;
}

// Checks that the schedule has the traits that table.cc gives for its algorithm.
Status CompareWithTraits(const AlgorithmEntry& entry, const ScheduleKey& key, const Schedule& schedule,
                         const Proof& proof) {
  const auto denied = [&](std::string_view what) {
    return Fail(ErrorCode::kInternal, "{}: {}, but the table of algorithms says otherwise", Describe(key), what);
  };
  if (entry.traits.rank_order && !proof.in_rank_order) return denied("operands are not in the ranks' order");
  if (entry.traits.left_fold && !proof.left_fold) return denied("is not the left fold");
  if (!entry.traits.needs_equal_counts && HandlesForeignBlocks(schedule)) {
    return denied("a rank handles blocks of which it may not know the lengths");
  }
  return {};
}

// Lists of hosts for hierarchical algorithms; the first is empty: all ranks on one host.
std::vector<std::vector<int>> HostLists(int world_size) {
  std::vector<std::vector<int>> lists(1);
  if (world_size == 1) return lists;
  lists.resize(4);
  for (int rank = 0; rank < world_size; ++rank) {
    lists[1].push_back(rank);
    lists[2].push_back(rank < (world_size + 2) / 3 ? 0 : 1);
    lists[3].push_back(rank % 3);
  }
  return lists;
}

}  // namespace

std::uint32_t ChunksOfVector(Collective collective, int world_size, std::uint32_t chunks) {
  return collective == Collective::kAllToAll ? chunks / static_cast<std::uint32_t>(world_size) : chunks;
}

KeySet EveryKey(const AlgorithmEntry& entry, int world_size) {
  const bool rooted = HasRoot(entry.collective);
  const bool reduces = Reduces(entry.collective);
  KeySet set;
  if (entry.algorithm == Algorithm::kHierarchical) {
    set.hosts_ = HostLists(world_size);
  } else {
    set.hosts_.resize(1);
  }
  for (const std::vector<int>& hosts : set.hosts_) {
    for (Rank root = 0; root < (rooted ? world_size : 1); ++root) {
      for (const bool in_place : {true, false}) {
        if (in_place && !HasInPlace(entry.collective)) continue;
        for (const bool scaled : {false, true}) {
          if (scaled && !reduces) continue;
          set.keys_.push_back({entry.collective, entry.algorithm, world_size, root, in_place, scaled,
                               hosts.empty() ? nullptr : &hosts});
        }
      }
    }
  }
  return set;
}

std::string Describe(const ScheduleKey& key) {
  std::string text = fmt::format("{} {}, world {}", Name(key.collective), Name(key.algorithm), key.world_size);
  if (HasRoot(key.collective)) text += fmt::format(", root {}", key.root);
  text += key.in_place ? ", in place" : ", out of place";
  if (key.scaled) text += ", scaled";
  if (key.hosts != nullptr) text += fmt::format(", hosts {}", fmt::join(*key.hosts, " "));
  return text;
}

Result<Proof> ProveSchedule(const AlgorithmEntry& entry, const ScheduleKey& key) {
  const Schedule schedule = Build(entry, key);
  auto proof = Verify(schedule);
  if (!proof) return Of(key, proof.error());
  RONDO_TRY(CompareWithPapers(key, schedule.chunks, *proof));
  RONDO_TRY(CompareWithTraits(entry, key, schedule, *proof));
  return proof;
}

Result<WorldProof> ProveWorld(const AlgorithmEntry& entry, int world_size) {
  WorldProof world;
  for (const ScheduleKey& key : EveryKey(entry, world_size)) {
    RONDO_ASSIGN(world.proof, ProveSchedule(entry, key));
    ++world.schedules;
  }
  return world;
}

Status ProveSamples(const AlgorithmEntry& entry, const ScheduleKey& key) {
  const std::uint32_t chunks = ChunksOf(entry, WorldOf(key));
  for (const std::uint32_t chunk : std::set<std::uint32_t>{0, chunks / 3, chunks - 1}) {
    const ChunkRange window{chunk, 1};
    if (const auto proof = Verify(BuildWindow(entry, key, window), window); !proof) return Of(key, proof.error());
  }
  const Rank last = key.world_size - 1;
  std::vector<RankSchedule> ranks;
  for (const Rank rank : std::set<Rank>{0, 1 % key.world_size, last / 2, last}) {
    ranks.push_back(Project(entry, key, rank));
  }
  for (const RankSchedule& rank : ranks) {
    if (const auto status = VerifyRankOrder(rank); !status) return Of(key, status.error());
    for (const RankSchedule& peer : ranks) {
      if (const auto status = VerifyLane(rank, peer); !status) return Of(key, status.error());
    }
  }
  return {};
}

Result<std::vector<MutationReport>> RefuseMutants(const AlgorithmEntry& entry, int max_world, int attempts,
                                                  std::uint64_t seed) {
  Random random(seed);
  std::vector<MutationReport> reports;
  for (const Mutation& mutation : AllMutations()) {
    MutationReport report{.name = std::string(mutation.name), .refused = 0, .counter_example = {}};
    for (int world = 1; world <= max_world; ++world) {
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        const Schedule schedule = Build(entry, key);
        for (int attempt = 0; attempt < attempts; ++attempt) {
          Schedule mutant = schedule;
          if (!mutation.apply(mutant, random)) continue;
          const auto proof = Verify(mutant);
          if (proof) {
            return Fail(ErrorCode::kInternal, "{}: the verifier did not notice the mutation \"{}\" (seed {})",
                        Describe(key), mutation.name, seed);
          }
          ++report.refused;
          report.counter_example = proof.error().message();
        }
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace rondo
