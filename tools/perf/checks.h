// Checks of the flags of `rondo perf` that need more than one flag, the environment or a file.
#pragma once

#include "base/result.h"
#include "tools/perf/flags.h"

namespace rondo {

// Settles what flags leave to each other and to the environment (timeout, transport, ranks). An error, which names the
// flag, says what cannot be done; where ranks are to be started here, before any is.
Status SettlePerfFlags(PerfFlags& flags);

// The files that rank 0 is to read and to write.
Status CheckPerfFiles(const PerfFlags& flags);

}  // namespace rondo
