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
#include "collectives/schedule/layout.h"
#include "collectives/schedule/step.h"

namespace rondo {

// A choice among the values of a flag: the one or several that were named, or all there are.
template <typename T>
struct Wanted {
  std::vector<T> values;
  bool all = false;  // pairings that make no sense are skipped; where everything was named they are errors
};

// Where the buffers of a measurement lie. Append: the names stand in files (report.h).
enum class PerfMemory : std::uint8_t {
  kHost,
  kPinned,  // of the host, pinned for the GPU
  kCuda,    // of the GPU
  kStaged,  // likewise, and never read there by other ranks' GPUs
  kGraph,   // of the GPU, whose graphs the operations are in
};
constexpr bool IsOnGpu(PerfMemory memory) { return memory != PerfMemory::kHost && memory != PerfMemory::kPinned; }
std::string_view Name(PerfMemory memory);  // "host", "pinned", "cuda", "staged", "graph"
std::optional<PerfMemory> ParsePerfMemory(std::string_view name);

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
  bool uneven = false;         // a count per rank: the ...V forms
  bool intranode = false;      // ranks share memory of one host, so there is the intranode path
  bool reproducible = false;   // reductions in reproducible mode too, beside the free choice
  bool wide_partials = false;  // reductions of 16-bit floats only: see CommunicatorOptions
  bool checksums = false;      // what every case is measured with; said in its row
  bool compare_results = false;
  std::uint32_t rails = 1;
  PerfMemory memory = PerfMemory::kHost;
  bool allocate = false;  // buffers from Communicator::Allocate; where messages alone are measured they always are
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
  std::uint64_t count = 0;       // elements of a block; where uneven, on average
  std::uint64_t blocks = 1;      // in the largest buffer of a rank: one, or one per rank
  bool uneven = false;
  bool reproducible = false;
  bool wide_partials = false;
  bool checksums = false;  // this and the next two: of the communicator
  bool compare_results = false;
  std::uint32_t rails = 1;
  PerfMemory memory = PerfMemory::kHost;

  // Of the largest buffer of a rank, as nccl-tests count.
  std::uint64_t bytes() const { return HasData(collective) ? count * blocks * SizeOf(type) : 0; }

  // What is measured, in a word: "all_gather", "send_recv"; Subject says "all_gather_v" where uneven.
  std::string_view Kind() const { return send_recv ? "send_recv" : Name(collective); }
  std::string Subject() const { return std::string(Kind()) + (uneven ? "_v" : ""); }
  bool has_root() const { return HasRoot(collective) && !send_recv; }
  static bool HasData(Collective collective) { return collective != Collective::kBarrier; }
  // A block per rank, and so a form with a count for each.
  static bool HasBlocks(Collective collective);

  std::string_view TypeName() const { return HasData(collective) ? Name(type) : "none"; }
  std::string_view OpName() const { return Reduces(collective) ? Name(op) : "none"; }
};

// The elements of each rank's block. Where uneven they rise evenly from about 0 to 2 * count; their sum is the same. In
// all_to_all, where every pair of ranks has a block, rank i sends counts[(i + j) % P] elements to rank j.
std::vector<std::uint64_t> CountsOf(const PerfCase& which, int world_size);

// In what way a collective, or one case, is measured: once, or out of place and in place as far as there is an in
// place.
std::vector<bool> Placements(const PerfOptions& options, Collective collective);
std::vector<bool> Placements(const PerfOptions& options, const PerfCase& which);

// The sizes of the sweep in bytes, rising, each a whole number of units: a unit is an element, or an element per rank.
// After 0 comes one unit, and what is less is one.
std::vector<std::uint64_t> SweepBytes(const PerfOptions& options, std::uint64_t unit_bytes);

// All cases, sizes innermost. kInvalidArgument: a pairing that was asked for makes no sense, a root outside the world.
Result<std::vector<PerfCase>> PlanCases(const PerfOptions& options, int world_size);

// What the bandwidth that a user sees is multiplied with to give what the wires carried (nccl-tests, PERFORMANCE.md).
double BusFactor(Collective collective, int world_size);

// One line of results: a case in one placement. Times are those of the slowest rank in each iteration; of a collective
// with a root whose ranks share a host, from the root's start to the last rank's end.
struct PerfRow {
  PerfCase of;
  bool in_place = false;
  std::string algorithm;  // that ran
  std::string transport;
  int ranks = 0;
  std::uint64_t iterations = 0;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double expected_us = 0;              // what the profile promised; 0 of what is not chosen (send_recv)
  bool expected_measured = false;      // from times, not from the cost model
  std::optional<std::uint64_t> wrong;  // elements on all ranks, both checks; nullopt when not checked

  // "chain", or "chain(fold)" in reproducible mode: one word, for those who split lines.
  std::string AlgorithmText() const { return algorithm + (of.reproducible ? "(fold)" : ""); }

  double AlgorithmGBps() const { return median_us > 0 ? static_cast<double>(of.bytes()) / median_us / 1e3 : 0; }
  double BusGBps() const { return AlgorithmGBps() * BusFactor(of.collective, ranks); }
};

}  // namespace rondo
