// Measures and checks one case after the other on a communicator. Every rank of it makes the same calls.
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
  // `complain` gets a line for every kind of wrong result that this rank finds, a few per case.
  // REQUIRES: communicator and clock outlive it.
  PerfBench(Communicator& communicator, const Clock& clock, std::function<void(const std::string&)> complain);
  ~PerfBench();

  // Takes the memory that `cases` need, two buffers of the largest size. kOutOfMemory names the bytes.
  Status Prepare(const PerfOptions& options, const std::vector<PerfCase>& cases);

  // One operation on fresh data, checked; then the timed ones; then, where the data still allows it, checked again.
  // Guard bytes around the buffers are checked too. An error is an operation that failed.
  Result<PerfRow> Measure(const PerfCase& which, bool in_place);

 private:
  // A stretch of a buffer and what it holds.
  struct Piece {
    RepeatedElements elements;
    std::uint64_t count = 0;
  };
  // What one case is on this rank.
  struct Part {
    std::vector<std::uint64_t> input_counts, output_counts;  // of the ...V forms
    std::vector<Piece> input, output;                        // before, and what must come out
    std::uint64_t input_bytes = 0, output_bytes = 0;
    double scale = 1.0;
    // In place: input and output are one memory, and where in it the smaller lies.
    bool one_memory = false;
    std::uint64_t input_at = 0, output_at = 0;
  };

  Part PartOf(const PerfCase& which, bool in_place);
  Status Choose(PerfRow& row) const;
  Status Once(const PerfCase& which);
  // One operation of the communicator: on memory of a GPU the asynchronous form, timed on its stream; in a graph a
  // launch.
  template <typename... Formal, typename... Actual>
  Status Call(Status (Communicator::*blocking)(Formal...), Work (Communicator::*issuing)(Formal...),
              Actual&&... arguments);
  Status LaunchGraph();
  bool is_on_gpu() const { return IsOnGpu(memory_); }
  // Which of this host's ranks this one is.
  int LocalRank() const;
  Status ExchangeWithNeighbours(const PerfCase& which);
  Rank Previous() const { return (communicator_.rank() + communicator_.world_size() - 1) % communicator_.world_size(); }
  // Readies the buffers for an operation whose result can be checked, and finds what is wrong after it.
  Status Fill();
  Result<std::uint64_t> CountWrong(const PerfCase& which, bool in_place, const char* when);
  const CheckedData& ReduceDataOf(const PerfCase& which);
  const MovedElements& MovedOf(DataType type);
  // Runs it as often as was asked for, or until the time is over, `first` times at once at first.
  Result<TimeSamples> TimeAll(const PerfCase& which, int first);
  // Runs it so many times; leaves in times_us_ how long each took.
  Status TimeEach(const PerfCase& which, int iterations);
  // The largest of each number over the ranks.
  Status MaxOverRanks(std::vector<double>& numbers);
  Result<int> AgreeOnIterations(double operation_us);

  Communicator& communicator_;
  const Clock& clock_;
  const std::function<void(const std::string&)> complain_;

  std::optional<int> fixed_iterations_;
  std::optional<int> warmup_;
  Duration time_per_size_{};
  bool is_time_given_ = false;  // by the user: then it is used up
  bool check_ = true;
  std::uint64_t max_count_ = 0;

  PerfMemory memory_ = PerfMemory::kHost;
  std::unique_ptr<CudaSession> session_;  // of all memory but the host's
  std::unique_ptr<CudaGraph> graph_;      // of the case that is measured, once it was captured
  double gpu_us_ = 0;                     // that the last operation took there
  std::unique_ptr<PerfArena> input_;      // in place: for both
  std::unique_ptr<PerfArena> output_;
  Part part_;
  // What was made last, for which type and operation.
  std::optional<std::pair<DataType, ReduceOp>> reduced_of_;
  CheckedData reduced_;
  std::optional<DataType> moved_of_;
  std::optional<MovedElements> moved_;
  std::vector<double> times_us_;   // by iteration: of the slowest rank
  std::vector<double> starts_us_;  // by iteration: when the root began, where that counts
};

}  // namespace rondo
