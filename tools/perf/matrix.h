// `rondo perf send_recv --matrix`: measures every pair of ranks, one pair after the other. Rank 0 reports the results.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf/matrix_report.h"
#include "tools/perf/outputs.h"

namespace rondo {

// Checks that the baseline file, if any, is a matrix that was measured with the same options. Complements CheckFiles.
// kInvalidArgument names the flag.
Status CheckMatrixBaseline(const PerfOutputs& outputs, const MatrixOptions& options);

// Measures all pairs; rank 0 prints and writes the results. Returns whether they are good: no wrong byte and no pair
// too slow, which all ranks return alike; on rank 0 also no pair slower than the baseline. An error means that a
// message failed or memory ran out. On rank 0 it can also mean that a file could not be written, or that the baseline
// has none of these pairs (kInvalidArgument); the communicator is then closed already.
Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const PerfOutputs& outputs);

}  // namespace rondo
