// Measures and checks one case after the other on a communicator. Every rank of it makes the same calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf_case.h"
#include "tools/perf_data.h"

namespace rondo {

class PerfBench {
 public:
  // `complain` gets a line for every kind of wrong result that this rank finds, a few per case.
  // REQUIRES: communicator and clock outlive it.
  PerfBench(Communicator& communicator, const Clock& clock, std::string transport,
            std::function<void(const std::string&)> complain);
  ~PerfBench();

  // Takes the memory that `cases` need: one buffer of the largest size, two when some are out of place.
  // kOutOfMemory names the bytes.
  Status Prepare(const PerfOptions& options, const std::vector<PerfCase>& cases);

  // One operation on fresh data, checked; then the timed ones; then, where the data still allows it, checked again.
  // Guard bytes around the buffers are checked too. An error is an operation that failed.
  Result<PerfRow> Measure(const PerfCase& which, bool in_place);

 private:
  class Arena;

  Result<std::string> AlgorithmOf(const PerfCase& which) const;
  Status Once(const PerfCase& which, bool in_place);
  Status ExchangeWithNeighbours(const PerfCase& which);
  Rank Previous() const { return (communicator_.rank() + communicator_.world_size() - 1) % communicator_.world_size(); }
  // Readies the buffers for an operation whose result can be checked, and finds what is wrong after it.
  void Fill(const PerfCase& which, bool in_place);
  std::uint64_t CountWrong(const PerfCase& which, bool in_place, const char* when);
  void UseDataOf(const PerfCase& which);
  // The largest of each number over the ranks.
  Status MaxOverRanks(std::vector<double>& numbers);
  Result<int> AgreeOnIterations(double operation_us);

  Communicator& communicator_;
  const Clock& clock_;
  const std::string transport_;
  const std::function<void(const std::string&)> complain_;

  std::optional<int> fixed_iterations_;
  std::optional<int> warmup_;
  Duration time_per_size_{};
  bool check_ = true;
  std::uint64_t max_count_ = 0;

  std::unique_ptr<Arena> input_;
  std::unique_ptr<Arena> output_;  // null when everything is in place
  CheckedData data_;
  std::optional<PerfCase> data_of_;  // the case for which data_ was made; its count does not matter
  std::vector<double> times_us_;
};

}  // namespace rondo
