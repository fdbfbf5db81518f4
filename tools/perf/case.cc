#include "tools/perf/case.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "collectives/algorithms/table.h"
#include "collectives/model/selector.h"

namespace rondo {

std::string_view Name(PerfMemory memory) {
  switch (memory) {
    case PerfMemory::kHost: return "host";
    case PerfMemory::kPinned: return "pinned";
    case PerfMemory::kCuda: return "cuda";
    case PerfMemory::kStaged: return "staged";
    case PerfMemory::kGraph: return "graph";
  }
  return "unknown";
}

std::optional<PerfMemory> ParsePerfMemory(std::string_view name) {
  for (const PerfMemory memory :
       {PerfMemory::kHost, PerfMemory::kPinned, PerfMemory::kCuda, PerfMemory::kStaged, PerfMemory::kGraph})
    if (Name(memory) == name) return memory;
  return std::nullopt;
}

namespace {

// An algorithm and a mode with which a collective is measured.
struct Way {
  std::optional<Algorithm> algorithm;
  bool reproducible = false;
};

// The reason why an algorithm cannot be used for a collective with these options; nullopt: it can be used.
std::optional<std::string> WhyNot(const PerfOptions& options, Collective collective, Algorithm algorithm) {
  if (algorithm == Algorithm::kIntranode) {
    if (!options.intranode) return "intranode needs ranks that share memory";
    return options.uneven ? std::optional<std::string>("intranode expects equal counts") : std::nullopt;
  }
  const AlgorithmEntry* const entry = FindAlgorithm(collective, algorithm);
  if (entry == nullptr) return fmt::format("{} does not support {}", Name(algorithm), Name(collective));
  const Call call{.collective = collective, .reproducible = options.reproducible, .equal_counts = !options.uneven};
  const auto unfit = Unfit(*entry, call);
  if (!unfit) return std::nullopt;
  return fmt::format("{} does not support {} like this: {}", Name(algorithm), Name(collective), *unfit);
}

Result<std::vector<Way>> WaysOf(const PerfOptions& options, Collective collective) {
  const bool fold = options.reproducible && Reduces(collective);
  std::vector<Way> ways;
  if (fold) ways.push_back({});  // the algorithm that the library chooses without reproducible mode, for comparison
  if (options.algorithms.all) {
    if (!WhyNot(options, collective, Algorithm::kIntranode)) ways.push_back({Algorithm::kIntranode, fold});
    for (const AlgorithmEntry& entry : AllAlgorithms())
      if (entry.collective == collective && !WhyNot(options, collective, entry.algorithm))
        ways.push_back({entry.algorithm, fold});
    return ways;
  }
  for (const std::optional<Algorithm>& algorithm : options.algorithms.values) {
    const auto why_not = algorithm ? WhyNot(options, collective, *algorithm) : std::nullopt;
    if (!why_not) {
      ways.push_back({algorithm, fold});
    } else if (!options.collectives.all) {
      return Fail(ErrorCode::kInvalidArgument, "--algorithm: {}", *why_not);
    }
  }
  return ways;
}

// Whether the flags allow any measurement of a collective. If they do not, the result is an error, unless the user
// asked for all collectives.
Result<bool> Measurable(const PerfOptions& options, Collective collective) {
  if (Placements(options, collective).empty()) {
    if (options.collectives.all) return false;
    return Fail(ErrorCode::kInvalidArgument, "--in-place: {} has no in-place form", Name(collective));
  }
  if (options.uneven && !PerfCase::HasBlocks(collective)) {
    if (options.collectives.all) return false;
    return Fail(ErrorCode::kInvalidArgument, "--uneven: {} has no count per rank", Name(collective));
  }
  return true;
}

std::vector<Rank> RootsFor(const PerfOptions& options, Collective collective, int world_size) {
  if (!HasRoot(collective)) return {0};
  if (!options.roots.all) return options.roots.values;
  std::vector<Rank> all;
  for (Rank root = 0; root < world_size; ++root) all.push_back(root);
  return all;
}

// The exchange with neighbours has only one algorithm, and no in-place form.
Status AddSendRecv(const PerfOptions& options, std::vector<PerfCase>& cases) {
  const auto& algorithms = options.algorithms;
  const bool free_to_choose = algorithms.all || std::find(algorithms.values.begin(), algorithms.values.end(),
                                                          std::nullopt) != algorithms.values.end();
  if (!options.collectives.all && !free_to_choose)
    return Fail(ErrorCode::kInvalidArgument, "--algorithm: send_recv has no algorithms to choose from");
  if (!options.collectives.all && !options.out_of_place)
    return Fail(ErrorCode::kInvalidArgument, "--in-place: send_recv has two buffers");
  if (!options.collectives.all && options.uneven)
    return Fail(ErrorCode::kInvalidArgument, "--uneven: send_recv has no count per rank");
  if (!free_to_choose || !options.out_of_place || options.uneven) return {};
  for (const DataType type : options.types.values)
    for (const std::uint64_t bytes : SweepBytes(options, SizeOf(type)))
      cases.push_back(
          {.collective = Collective::kBroadcast, .send_recv = true, .type = type, .count = bytes / SizeOf(type)});
  return {};
}

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

}  // namespace

bool PerfCase::HasBlocks(Collective collective) { return BlocksOf(collective, 2) > 1; }

std::vector<std::uint64_t> CountsOf(const PerfCase& which, int world_size) {
  const auto ranks = static_cast<std::uint64_t>(world_size);
  std::vector<std::uint64_t> counts(ranks, which.count);
  if (!which.uneven) return counts;
  // Block r ends at total * ((r + 1) / P)^2, computed so that it does not overflow.
  const std::uint64_t total = which.count * ranks, squares = ranks * ranks;
  const auto begin = [&](std::uint64_t r) { return total / squares * (r * r) + total % squares * (r * r) / squares; };
  for (std::uint64_t r = 0; r < ranks; ++r) counts[r] = begin(r + 1) - begin(r);
  return counts;
}

std::vector<bool> Placements(const PerfOptions& options, Collective collective) {
  if (!PerfCase::HasData(collective)) return {false};
  std::vector<bool> placements;
  if (options.out_of_place) placements.push_back(false);
  if (options.in_place && HasInPlace(collective)) placements.push_back(true);
  return placements;
}

std::vector<bool> Placements(const PerfOptions& options, const PerfCase& which) {
  return which.send_recv ? std::vector<bool>{false} : Placements(options, which.collective);
}

std::vector<std::uint64_t> SweepBytes(const PerfOptions& options, std::uint64_t unit_bytes) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    const std::uint64_t whole = bytes == 0 ? 0 : std::max(bytes / unit_bytes, std::uint64_t{1}) * unit_bytes;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    std::uint64_t next = 0;
    if (options.step_bytes) {
      next = bytes + *options.step_bytes;
    } else if (bytes == 0) {
      next = unit_bytes;
    } else if (bytes <= UINT64_MAX / options.step_factor) {
      next = bytes * options.step_factor;
    }
    if (next <= bytes) break;  // the next size would overflow
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
    RONDO_ASSIGN(const bool measurable, Measurable(options, collective));
    if (!measurable) continue;
    RONDO_ASSIGN(const auto ways, WaysOf(options, collective));
    if (!PerfCase::HasData(collective)) {
      for (const Way& way : ways) cases.push_back({.collective = collective, .algorithm = way.algorithm});
      continue;
    }
    const std::vector<ReduceOp> ops = Reduces(collective) ? options.ops.values : std::vector<ReduceOp>{ReduceOp::kSum};
    const std::uint64_t blocks = PerfCase::HasBlocks(collective) ? static_cast<std::uint64_t>(world_size) : 1;
    for (const DataType type : options.types.values) {
      for (const ReduceOp op : ops) {
        if (const Status sensible = CheckPairing(type, op); Reduces(collective) && !sensible) {
          if (options.types.all || options.ops.all) continue;
          return Fail(ErrorCode::kInvalidArgument, "--op: {}", sensible.error().message());
        }
        for (const Rank root : RootsFor(options, collective, world_size)) {
          for (const Way& way : ways) {
            for (const std::uint64_t bytes : SweepBytes(options, SizeOf(type) * blocks)) {
              cases.push_back({.collective = collective,
                               .algorithm = way.algorithm,
                               .type = type,
                               .op = op,
                               .root = root,
                               .count = bytes / SizeOf(type) / blocks,
                               .blocks = blocks,
                               .uneven = options.uneven,
                               .reproducible = way.reproducible,
                               .fp32_accumulate = options.fp32_accumulate && Reduces(collective) && IsHalf(type)});
            }
          }
        }
      }
    }
  }
  if (options.send_recv) RONDO_TRY(AddSendRecv(options, cases));
  const auto is_wide = [](const PerfCase& one) { return one.fp32_accumulate; };
  if (options.fp32_accumulate && std::none_of(cases.begin(), cases.end(), is_wide))
    return Fail(ErrorCode::kInvalidArgument, "--fp32-accumulate: expected a reduction of float16 or bfloat16");
  if (cases.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "nothing to measure: no collective, type and operation of these flags fit together");
  for (PerfCase& one : cases) {
    one.checksums = options.checksums;
    one.compare_results = options.compare_results;
    one.rails = options.rails;
    one.memory = options.memory;
  }
  return cases;
}

double BusFactor(Collective collective, int world_size) {
  const double others = static_cast<double>(world_size - 1) / world_size;
  switch (collective) {
    case Collective::kAllReduce: return 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll: return others;
    case Collective::kBroadcast:
    case Collective::kReduce: return 1;
    case Collective::kBarrier: return 0;
  }
  return 0;
}

}  // namespace rondo
