// Defines the measurements of `rondo perf`: the values of its flags, and the list of cases that follows from them.
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

// The values of a flag: those that the user named, or all.
template <typename T>
struct Wanted {
  std::vector<T> values;
  bool all = false;  // true: combinations that make no sense are skipped; false: they are errors
};

// Where the buffers are. Only append values, and do not rename them: JSON files contain the names (rows_json.h).
enum class PerfMemory : std::uint8_t {
  kHost,
  kPinned,  // host memory, pinned for the GPU
  kCuda,    // GPU memory
  kStaged,  // GPU memory that GPUs of other ranks do not access directly
  kGraph,   // GPU memory; the operations run in CUDA graphs
};
constexpr bool IsOnGpu(PerfMemory memory) { return memory != PerfMemory::kHost && memory != PerfMemory::kPinned; }
std::string_view Name(PerfMemory memory);  // "host", "pinned", "cuda", "staged", "graph"
std::optional<PerfMemory> ParsePerfMemory(std::string_view name);

struct PerfOptions {
  Wanted<Collective> collectives;
  bool send_recv = false;  // true: the exchange with neighbours is measured, too
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 64 << 20;
  std::uint64_t step_factor = 2;
  std::optional<std::uint64_t> step_bytes;  // replaces the factor
  std::optional<int> iterations;  // the number of iterations for each size; nullopt: as many as fit into time_per_size
  // The measuring time for each size; nullopt: a default that depends on the number of sizes.
  std::optional<Duration> time_per_size;
  std::optional<int> warmup;
  Wanted<DataType> types{{DataType::kFloat32}};
  Wanted<ReduceOp> ops{{ReduceOp::kSum}};
  Wanted<Rank> roots{{0}};
  Wanted<std::optional<Algorithm>> algorithms{{std::nullopt}};  // nullopt: the library chooses
  bool out_of_place = true;
  bool in_place = true;
  bool uneven = false;           // true: the ...V functions are used, with a different count for each rank
  bool intranode = false;        // ranks of one host share memory, so the intranode path can be used
  bool reproducible = false;     // true: reductions are measured twice, as the library chooses and in reproducible mode
  bool fp32_accumulate = false;  // has an effect only on reductions of 16-bit floats; see CommunicatorOptions
  bool checksums = false;        // this and the next two members are options of the communicator, shown in each row
  bool compare_results = false;
  std::uint32_t rails = 1;
  PerfMemory memory = PerfMemory::kHost;
  // true: buffers are from Communicator::Allocate, as they always are if only send_recv is measured.
  bool allocate = false;
  bool check = true;
};

struct PerfCase {
  Collective collective = Collective::kAllReduce;
  // true: measures no collective, but the pattern that nccl-tests calls sendrecv. Every rank sends `count` elements to
  // the next rank and receives `count` elements from the previous rank. `collective` is then kBroadcast, because it has
  // data and reduces nothing.
  bool send_recv = false;
  std::optional<Algorithm> algorithm;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // used by reductions
  Rank root = 0;                 // used by collectives with a root
  std::uint64_t count = 0;       // number of elements of a block; if uneven, the average over the blocks
  std::uint64_t blocks = 1;      // number of blocks in the largest buffer of a rank: one, or one per rank
  bool uneven = false;
  bool reproducible = false;
  bool fp32_accumulate = false;
  bool checksums = false;  // this and the next two members are options of the communicator
  bool compare_results = false;
  std::uint32_t rails = 1;
  PerfMemory memory = PerfMemory::kHost;

  // Size of the largest buffer of a rank, as nccl-tests define it.
  std::uint64_t bytes() const { return HasData(collective) ? count * blocks * SizeOf(type) : 0; }

  // The name of the measured operation: "all_gather", "send_recv". Subject returns "all_gather_v" if uneven.
  std::string_view Kind() const { return send_recv ? "send_recv" : Name(collective); }
  std::string Subject() const { return std::string(Kind()) + (uneven ? "_v" : ""); }
  bool has_root() const { return HasRoot(collective) && !send_recv; }
  static bool HasData(Collective collective) { return collective != Collective::kBarrier; }
  // Whether the collective has a block for each rank, and therefore a form with a count for each rank.
  static bool HasBlocks(Collective collective);

  std::string_view TypeName() const { return HasData(collective) ? Name(type) : "none"; }
  std::string_view OpName() const { return Reduces(collective) ? Name(op) : "none"; }
};

// The number of elements in each rank's block. If uneven, the numbers rise from about 0 to about 2 * count, and their
// sum is the same as with equal counts. In all_to_all, which has a block for every pair of ranks, rank i sends
// counts[(i + j) % P] elements to rank j.
std::vector<std::uint64_t> CountsOf(const PerfCase& which, int world_size);

// The placements in which a collective or a case is measured: false is out of place, true is in place. A collective
// without an in-place form has only false.
std::vector<bool> Placements(const PerfOptions& options, Collective collective);
std::vector<bool> Placements(const PerfOptions& options, const PerfCase& which);

// The sizes of the sweep in bytes, in rising order. Each is a multiple of `unit_bytes`, the size of one element or of
// one element per rank. A size between 0 and one unit becomes one unit; after 0 the next size is one unit.
std::vector<std::uint64_t> SweepBytes(const PerfOptions& options, std::uint64_t unit_bytes);

// Makes the list of all cases. The size varies fastest. kInvalidArgument: the user asked for a combination that makes
// no sense, or for a root outside the world.
Result<std::vector<PerfCase>> PlanCases(const PerfOptions& options, int world_size);

// The factor that converts algorithm bandwidth (buffer size divided by time) to bus bandwidth (bytes on the wires
// divided by time). PERFORMANCE.md of nccl-tests explains both.
double BusFactor(Collective collective, int world_size);

// One row of results: a case in one placement. The time of an iteration is the time of its slowest rank. For a
// collective with a root, if all ranks share a host, it is the time from the root's start to the end on the slowest
// rank.
struct PerfRow {
  PerfCase of;
  bool in_place = false;
  std::string algorithm;  // the one that ran
  std::string transport;
  int ranks = 0;
  std::uint64_t iterations = 0;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double expected_us = 0;          // the time that the profile predicts; 0 if no algorithm is chosen (send_recv)
  bool expected_measured = false;  // true: expected_us is a measured time; false: it is the result of the cost model
  std::optional<std::uint64_t> wrong;  // wrong elements in the checked results of all ranks; nullopt: not checked

  // "chain", or "chain(fold)" in reproducible mode: one word, so that scripts can split lines at blanks.
  std::string AlgorithmText() const { return algorithm + (of.reproducible ? "(fold)" : ""); }

  double AlgorithmGBps() const { return median_us > 0 ? static_cast<double>(of.bytes()) / median_us / 1e3 : 0; }
  double BusGBps() const { return AlgorithmGBps() * BusFactor(of.collective, ranks); }
};

}  // namespace rondo
