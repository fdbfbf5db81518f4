// Measures and checks the cases of `rondo perf` on a communicator, one after the other. Every rank must make the same
// calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "cuda/session.h"
#include "tools/perf/arena.h"
#include "tools/perf/case.h"
#include "tools/perf/checked_data.h"
#include "tools/perf/time_samples.h"

namespace rondo {

class PerfBench {
 public:
  // `complain` is called with a line for each kind of wrong result that this rank finds, but only a few times per case.
  // REQUIRES: communicator and clock outlive this object.
  PerfBench(Communicator& communicator, const Clock& clock, std::function<void(const std::string&)> complain);
  ~PerfBench();

  // Allocates two buffers of the largest size among `cases`. kOutOfMemory: the message says how many bytes were needed.
  Status Prepare(const PerfOptions& options, const std::vector<PerfCase>& cases);

  // Runs one operation on new data and checks the result. Then runs the timed operations and checks again, if the
  // result is still known. Both checks cover the guard bytes around the buffers. Returns an error if an operation
  // failed.
  Result<PerfRow> Measure(const PerfCase& which, bool in_place);

 private:
  // Consecutive elements of a buffer, and the content that they must have.
  struct Piece {
    RepeatedElements elements;
    std::uint64_t count = 0;
  };
  // The buffers of one case on this rank.
  struct Part {
    std::vector<std::uint64_t> input_counts, output_counts;  // of the ...V forms
    std::vector<Piece> input, output;                        // contents before the operation, and after it
    std::uint64_t input_bytes = 0, output_bytes = 0;
    double scale = 1.0;
    // true: in place, so input and output are in one buffer. `input_at` and `output_at` are their offsets in this
    // buffer, in bytes. Only the smaller one of input and output can have an offset above 0.
    bool one_memory = false;
    std::uint64_t input_at = 0, output_at = 0;
  };

  Part PartOf(const PerfCase& which, bool in_place);
  Status Choose(PerfRow& row) const;
  Status Once(const PerfCase& which);
  // Runs one operation. On GPU memory it uses the asynchronous form and times it on the stream; for PerfMemory::kGraph
  // it launches a graph that contains the operation.
  template <typename... Formal, typename... Actual>
  Status Call(Status (Communicator::*blocking)(Formal...), Work (Communicator::*issuing)(Formal...),
              Actual&&... arguments);
  Status LaunchGraph();
  bool is_on_gpu() const { return IsOnGpu(memory_); }
  // The index of this rank among the ranks of its host.
  int LocalRank() const;
  Status ExchangeWithNeighbours(const PerfCase& which);
  Rank Previous() const { return (communicator_.rank() + communicator_.world_size() - 1) % communicator_.world_size(); }
  // Fill prepares the buffers for an operation whose result can be checked. CountWrong then checks the result.
  Status Fill();
  Result<std::uint64_t> CountWrong(const PerfCase& which, bool in_place, const char* when);
  const CheckedData& ReduceDataOf(const PerfCase& which);
  const MovedElements& MovedOf(DataType type);
  // Runs as many operations as the user asked for, or runs operations until the given time has passed. The first batch
  // has `first` operations.
  Result<TimeSamples> TimeAll(const PerfCase& which, int first);
  // Runs `iterations` operations and stores the time of each in times_us_.
  Status TimeEach(const PerfCase& which, int iterations);
  // Replaces each number by its maximum over all ranks.
  Status MaxOverRanks(std::vector<double>& numbers);
  Result<int> AgreeOnIterations(double operation_us);

  Communicator& communicator_;
  const Clock& clock_;
  const std::function<void(const std::string&)> complain_;

  std::optional<int> fixed_iterations_;
  std::optional<int> warmup_;
  Duration time_per_size_{};
  bool is_time_given_ = false;  // whether the user has set time_per_size_; if so, all of this time is used
  bool check_ = true;
  std::uint64_t max_count_ = 0;

  PerfMemory memory_ = PerfMemory::kHost;
  std::unique_ptr<CudaSession> session_;  // set for every kind of memory except kHost
  std::unique_ptr<CudaGraph> graph_;      // the graph of the current case; null until it is captured
  double gpu_us_ = 0;                     // the time that the latest operation took on the GPU
  std::unique_ptr<PerfArena> input_;      // the input; if in place, also the output
  std::unique_ptr<PerfArena> output_;
  Part part_;
  // The latest data for checks: `reduced_` for the type and operation in `reduced_of_`, `moved_` for the type in
  // `moved_of_`.
  std::optional<std::pair<DataType, ReduceOp>> reduced_of_;
  CheckedData reduced_;
  std::optional<DataType> moved_of_;
  std::optional<MovedElements> moved_;
  std::vector<double> times_us_;  // for each iteration, the time of the slowest rank
  // For each iteration, the time at which the root started. Empty unless the measured time begins with the root's
  // start.
  std::vector<double> starts_us_;
};

}  // namespace rondo
