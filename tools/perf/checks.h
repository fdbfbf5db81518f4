// Checks of `rondo perf` that involve several flags, the environment or files.
#pragma once

#include "base/result.h"
#include "tools/perf/flags.h"

namespace rondo {

// Fills in missing flags (timeout, transport, ranks) from other flags and from the environment. If the request is
// impossible, returns an error that names the flag. If ranks are started on this host, the function runs before
// any of them starts.
Status SettlePerfFlags(PerfFlags& flags);

// Checks the files that rank 0 will read and write.
Status CheckPerfFiles(const PerfFlags& flags);

}  // namespace rondo
