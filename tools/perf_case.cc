#include "tools/perf_case.h"

#include <algorithm>

#include "collectives/algorithms/table.h"

namespace rondo {
namespace {

// The algorithms to measure a collective with.
Result<std::vector<std::optional<Algorithm>>> AlgorithmsFor(const PerfOptions& options, Collective collective) {
  std::vector<std::optional<Algorithm>> serving;
  if (options.algorithms.all) {
    for (const AlgorithmEntry& entry : AllAlgorithms())
      if (entry.collective == collective) serving.emplace_back(entry.algorithm);
    return serving;
  }
  for (const std::optional<Algorithm>& algorithm : options.algorithms.values) {
    if (!algorithm || FindAlgorithm(collective, *algorithm) != nullptr) {
      serving.push_back(algorithm);
    } else if (!options.collectives.all) {
      return Fail(ErrorCode::kInvalidArgument, "--algorithm: {} does not serve {}", Name(*algorithm), Name(collective));
    }
  }
  return serving;
}

std::vector<Rank> RootsFor(const PerfOptions& options, Collective collective, int world_size) {
  if (!PerfCase::HasRoot(collective)) return {0};
  if (!options.roots.all) return options.roots.values;
  std::vector<Rank> all;
  for (Rank root = 0; root < world_size; ++root) all.push_back(root);
  return all;
}

// The exchange with neighbours has no algorithms to choose from and no in place.
Status AddSendRecv(const PerfOptions& options, std::vector<PerfCase>& cases) {
  const auto& algorithms = options.algorithms;
  const bool free_to_choose = algorithms.all || std::find(algorithms.values.begin(), algorithms.values.end(),
                                                          std::nullopt) != algorithms.values.end();
  if (!options.collectives.all && !free_to_choose)
    return Fail(ErrorCode::kInvalidArgument, "--algorithm: send_recv has none to choose from");
  if (!options.collectives.all && !options.out_of_place)
    return Fail(ErrorCode::kInvalidArgument, "--in-place: send_recv has two buffers");
  if (!free_to_choose || !options.out_of_place) return {};
  for (const DataType type : options.types.values)
    for (const std::uint64_t bytes : SweepBytes(options, SizeOf(type)))
      cases.push_back(
          {.collective = Collective::kBroadcast, .send_recv = true, .type = type, .count = bytes / SizeOf(type)});
  return {};
}

}  // namespace

std::vector<bool> Placements(const PerfOptions& options, const PerfCase& which) {
  if (!PerfCase::HasData(which.collective) || which.send_recv) return {false};
  std::vector<bool> placements;
  if (options.out_of_place) placements.push_back(false);
  if (options.in_place) placements.push_back(true);
  return placements;
}

std::vector<std::uint64_t> SweepBytes(const PerfOptions& options, std::size_t element_bytes) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    const std::uint64_t whole = bytes / element_bytes * element_bytes;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    std::uint64_t next = 0;
    if (options.step_bytes) {
      next = bytes + *options.step_bytes;
    } else if (bytes == 0) {
      next = element_bytes;
    } else if (bytes <= UINT64_MAX / options.step_factor) {
      next = bytes * options.step_factor;
    }
    if (next <= bytes) break;  // past the largest number
    bytes = next;
  }
  return sizes;
}

Result<std::vector<PerfCase>> PlanCases(const PerfOptions& options, int world_size) {
  if (options.min_bytes > options.max_bytes) {
    return Fail(ErrorCode::kInvalidArgument, "--min-bytes: {} is more than --max-bytes {}", options.min_bytes,
                options.max_bytes);
  }
  for (const Rank root : options.roots.values) {
    if (root >= world_size) {
      return Fail(ErrorCode::kInvalidArgument, "--root: {} is outside 0..{}", root, world_size - 1);
    }
  }
  std::vector<PerfCase> cases;
  for (const Collective collective : options.collectives.values) {
    RONDO_ASSIGN(const auto algorithms, AlgorithmsFor(options, collective));
    if (!PerfCase::HasData(collective)) {
      for (const auto& algorithm : algorithms) cases.push_back({.collective = collective, .algorithm = algorithm});
      continue;
    }
    const std::vector<ReduceOp> ops =
        PerfCase::Reduces(collective) ? options.ops.values : std::vector<ReduceOp>{ReduceOp::kSum};
    for (const DataType type : options.types.values) {
      for (const ReduceOp op : ops) {
        if (const Status sensible = CheckPairing(type, op); PerfCase::Reduces(collective) && !sensible) {
          if (options.types.all || options.ops.all) continue;
          return Fail(ErrorCode::kInvalidArgument, "--op: {}", sensible.error().message());
        }
        for (const Rank root : RootsFor(options, collective, world_size)) {
          for (const auto& algorithm : algorithms) {
            for (const std::uint64_t bytes : SweepBytes(options, SizeOf(type))) {
              cases.push_back({.collective = collective,
                               .algorithm = algorithm,
                               .type = type,
                               .op = op,
                               .root = root,
                               .count = bytes / SizeOf(type)});
            }
          }
        }
      }
    }
  }
  if (options.send_recv) RONDO_TRY(AddSendRecv(options, cases));
  if (cases.empty())
    return Fail(ErrorCode::kInvalidArgument, "nothing to measure: no pairing of these flags makes sense");
  return cases;
}

double BusFactor(Collective collective, int world_size) {
  switch (collective) {
    case Collective::kAllReduce: return 2.0 * (world_size - 1) / world_size;
    case Collective::kBroadcast: return 1.0;
    case Collective::kBarrier: return 0.0;
  }
  return 0.0;
}

}  // namespace rondo
