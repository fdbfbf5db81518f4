// A whole measurement on one rank: runs all cases, and reports the results on rank 0.
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

// Measures `cases`, which must be equal on all ranks; rank 0 prints and writes the results. An error means that an
// operation failed, memory ran out, or a file could not be written.
Result<PerfVerdict> MeasureAll(Communicator& communicator, const Clock& clock, const PerfOptions& options,
                               const std::vector<PerfCase>& cases, const PerfOutputs& outputs);

}  // namespace rondo
