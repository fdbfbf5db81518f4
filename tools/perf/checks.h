// Checks of `rondo perf` that involve several flags, the environment or files.
#pragma once

#include "base/result.h"
#include "tools/perf/flags.h"

namespace rondo {

// Completes the flags from each other and from the environment (timeout, transport, ranks). Returns an error that names
// the flag if the request cannot be met. If ranks are started on this host, this runs before any of them starts.
Status SettlePerfFlags(PerfFlags& flags);

// Checks the files that rank 0 will read and write.
Status CheckPerfFiles(const PerfFlags& flags);

}  // namespace rondo
