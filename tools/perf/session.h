// A whole measurement on one rank: every case in turn, and on rank 0 everything that is said about it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf/case.h"
#include "tools/perf/outputs.h"

namespace rondo {

struct PerfVerdict {
  std::uint64_t wrong = 0;
  bool regressed = false;
  bool good() const { return wrong == 0 && !regressed; }
};

// Measures `cases` (equal on all ranks); rank 0 prints and writes. An error: an operation failed, memory was missing,
// or a file could not be written.
Result<PerfVerdict> MeasureAll(Communicator& communicator, const Clock& clock, const PerfOptions& options,
                               const std::vector<PerfCase>& cases, const PerfOutputs& outputs);

}  // namespace rondo
