// `rondo perf send_recv --matrix`: measures every pair of ranks, one after the other; rank 0 says what came of it.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf/matrix_report.h"
#include "tools/perf/outputs.h"

namespace rondo {

// Beside CheckFiles: that the baseline, if there is one, is a matrix measured alike. kInvalidArgument names the flag.
Status CheckMatrixBaseline(const PerfOutputs& outputs, const MatrixOptions& options);

// Rank 0 prints and writes. Whether it was good: no wrong byte, no pair too slow, which all ranks know alike, and on
// rank 0 also none slower than the baseline. An error: a message failed or memory was missing; on rank 0, with the
// communicator closed, a file could not be written, or the baseline has none of these pairs (kInvalidArgument).
Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const PerfOutputs& outputs);

}  // namespace rondo
