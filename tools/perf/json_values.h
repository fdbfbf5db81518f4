// Helpers for the JSON output of `rondo perf`, for collectives and for pairs of ranks.
#pragma once

#include "tools/common/json.h"
#include "tools/perf/report.h"

namespace rondo {

// Rounds to six significant digits, the precision of a measurement.
double Rounded(double value);

Json HostToJson(const HostFacts& host);

}  // namespace rondo
