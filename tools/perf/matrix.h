// `rondo perf send_recv --matrix`: measures every pair of ranks, one pair after the other. Rank 0 reports the results.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf/matrix_report.h"
#include "tools/perf/outputs.h"

namespace rondo {

// If a baseline file is given, checks that it contains a matrix that was measured with the same options. Call this
// function in addition to CheckFiles. kInvalidArgument names the flag.
Status CheckMatrixBaseline(const PerfOutputs& outputs, const MatrixOptions& options);

// Measures all pairs; rank 0 prints and writes the results. Returns whether the results are good: no byte is wrong and
// no pair is too slow. This result is the same on all ranks, except that rank 0 also returns false if a pair is slower
// than in the baseline. An error means that a message failed or memory ran out. On rank 0 an error can also mean that a
// file could not be written, or that the baseline has none of these pairs (kInvalidArgument). In these two cases the
// communicator is already closed.
Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const PerfOutputs& outputs);

}  // namespace rondo
