// What `rondo perf` measures: the flags as values, and the list of cases they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

// A choice among the values of a flag: the one or several that were named, or all there are.
template <typename T>
struct Wanted {
  std::vector<T> values;
  bool all = false;  // pairings that make no sense are skipped; where everything was named they are errors
};

struct PerfOptions {
  Wanted<Collective> collectives;
  bool send_recv = false;  // the exchange with neighbours too
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 64 << 20;
  std::uint64_t step_factor = 2;
  std::optional<std::uint64_t> step_bytes;  // in place of the factor
  std::optional<int> iterations;            // per size; else as many as fit into time_per_size
  std::optional<Duration> time_per_size;    // nullopt: by the number of sizes to measure
  std::optional<int> warmup;
  Wanted<DataType> types{{DataType::kFloat32}};
  Wanted<ReduceOp> ops{{ReduceOp::kSum}};
  Wanted<Rank> roots{{0}};
  Wanted<std::optional<Algorithm>> algorithms{{std::nullopt}};  // nullopt: the library chooses
  bool out_of_place = true;
  bool in_place = true;
  bool check = true;
};

struct PerfCase {
  Collective collective = Collective::kAllReduce;
  // Not a collective but what nccl-tests call sendrecv: every rank sends `count` elements to the next rank and receives
  // as many from the previous one. `collective` is kBroadcast then, for it has data and reduces nothing.
  bool send_recv = false;
  std::optional<Algorithm> algorithm;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // of reductions
  Rank root = 0;                 // of collectives with one
  std::uint64_t count = 0;       // elements
  std::uint64_t bytes() const { return HasData(collective) ? count * SizeOf(type) : 0; }

  std::string_view Subject() const { return send_recv ? "send_recv" : Name(collective); }
  static bool HasData(Collective collective) { return collective != Collective::kBarrier; }
  static bool Reduces(Collective collective) { return collective == Collective::kAllReduce; }
  static bool HasRoot(Collective collective) { return collective == Collective::kBroadcast; }

  std::string_view TypeName() const { return HasData(collective) ? Name(type) : "none"; }
  std::string_view OpName() const { return Reduces(collective) ? Name(op) : "none"; }
};

// In what way one case is measured: once, or out of place and in place.
std::vector<bool> Placements(const PerfOptions& options, const PerfCase& which);

// The sizes of the sweep in bytes, rising; after 0 comes one element.
std::vector<std::uint64_t> SweepBytes(const PerfOptions& options, std::size_t element_bytes);

// All cases, sizes innermost. kInvalidArgument: a pairing that was asked for makes no sense, a root outside the world.
Result<std::vector<PerfCase>> PlanCases(const PerfOptions& options, int world_size);

// What the bandwidth that a user sees is multiplied with to give what the wires carried (nccl-tests, PERFORMANCE.md).
double BusFactor(Collective collective, int world_size);

// One line of results: a case in one placement. Times are those of the slowest rank in each iteration.
struct PerfRow {
  PerfCase of;
  bool in_place = false;
  std::string algorithm;  // that ran
  std::string transport;
  int ranks = 0;
  int iterations = 0;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  double max_us = 0;
  std::optional<std::uint64_t> wrong;  // elements on all ranks, both checks; nullopt when not checked

  double AlgorithmGBps() const { return median_us > 0 ? static_cast<double>(of.bytes()) / median_us / 1e3 : 0; }
  double BusGBps() const { return AlgorithmGBps() * BusFactor(of.collective, ranks); }
};

}  // namespace rondo
