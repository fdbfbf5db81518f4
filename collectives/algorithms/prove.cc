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

// How deep the brackets of "((0+1)+2)" nest.
std::uint32_t Depth(const std::string& order) {
  std::uint32_t depth = 0, deepest = 0;
  for (const char c : order) {
    depth += c == '(' ? 1 : 0;
    depth -= c == ')' ? 1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

// The documented order as a scaled schedule's proof prints it: "s(3)" for "3".
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
  const auto cost = PaperCost(key.collective, key.algorithm, key.world_size);
  if (!cost) return Fail(ErrorCode::kInternal, "{}: there is no formula for it", Describe(key));
  if (proof.rounds != cost->rounds) {
    return Fail(ErrorCode::kInternal, "{}: takes {} rounds; {} is {}", Describe(key), proof.rounds,
                cost->rounds_formula, cost->rounds);
  }
  if (proof.max_chunks_sent * cost->sent.denominator != cost->sent.numerator * chunks) {
    return Fail(ErrorCode::kInternal, "{}: a rank sends {} of {} chunks; {} is {}/{} of the vector", Describe(key),
                proof.max_chunks_sent, chunks, cost->sent_formula, cost->sent.numerator, cost->sent.denominator);
  }
  if (key.collective != Collective::kAllReduce) return {};
  std::uint32_t deepest = 0;
  for (std::uint32_t c = 0; c < proof.order.size(); ++c) {
    const std::string order = DocumentedOrder(key.algorithm, key.world_size, c);
    const std::string documented = key.scaled ? Scaled(order) : order;
    if (proof.order[c] != documented) {
      return Fail(ErrorCode::kInternal, "{}: chunk {} is {}; documented is {}", Describe(key), c, proof.order[c],
                  documented);
    }
    deepest = std::max(deepest, Depth(order));
  }
  const std::uint32_t documented_depth = RoundingDepth(key.algorithm, key.world_size);
  if (!proof.order.empty() && deepest != documented_depth) {
    return Fail(ErrorCode::kInternal, "{}: {} combinations deep; documented are {}", Describe(key), deepest,
                documented_depth);
  }
  return {};
}

}  // namespace

std::vector<ScheduleKey> EveryKey(const AlgorithmEntry& entry, int world_size) {
  const bool rooted = HasRoot(entry.collective);
  const bool reduces = Reduces(entry.collective);
  std::vector<ScheduleKey> keys;
  for (Rank root = 0; root < (rooted ? world_size : 1); ++root) {
    for (const bool in_place : {true, false}) {
      if (in_place && !HasInPlace(entry.collective)) continue;
      for (const bool scaled : {false, true}) {
        if (scaled && !reduces) continue;
        keys.push_back({entry.collective, entry.algorithm, world_size, root, in_place, scaled});
      }
    }
  }
  return keys;
}

std::string Describe(const ScheduleKey& key) {
  std::string text = fmt::format("{} {}, world {}", Name(key.collective), Name(key.algorithm), key.world_size);
  if (HasRoot(key.collective)) text += fmt::format(", root {}", key.root);
  text += key.in_place ? ", in place" : ", out of place";
  if (key.scaled) text += ", scaled";
  return text;
}

Result<Proof> ProveSchedule(const AlgorithmEntry& entry, const ScheduleKey& key) {
  const Schedule schedule = Build(entry, key);
  auto proof = Verify(schedule);
  if (!proof) return Of(key, proof.error());
  RONDO_TRY(CompareWithPapers(key, schedule.chunks, *proof));
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
            return Fail(ErrorCode::kInternal, "{}: \"{}\" was not noticed (seed {})", Describe(key), mutation.name,
                        seed);
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
