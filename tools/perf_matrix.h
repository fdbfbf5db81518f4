// `rondo perf send_recv --matrix`: every pair of ranks, one after the other, and what is said about them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/pair_bench.h"

namespace rondo {

struct MatrixOptions {
  PairOptions pair;
  bool gbits = false;              // tables in Gbit/s instead of GB/s
  std::optional<double> min_gbps;  // Gbit/s that each direction of each pair has to reach
};

// What is to be said, from the rows of all pairs: pure.
struct MatrixReport {
  std::string table;
  std::vector<PairRow> slow;      // a direction far below what is usual here
  std::vector<PairRow> too_slow;  // a direction below min_gbps
};
// `names` by rank: "host 10.0.0.1".
MatrixReport ReportOf(const std::vector<PairRow>& rows, const std::vector<std::string>& names,
                      const MatrixOptions& options);

// Measures all pairs; rank 0 prints to `out`. Whether it was good: no wrong byte, no pair too slow; the same on all
// ranks.
Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const std::string& head, std::FILE* out);

}  // namespace rondo
