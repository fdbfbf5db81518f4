// What the JSON texts that `rondo perf` writes have in common, of collectives and of pairs of ranks.
#pragma once

#include "tools/common/json.h"
#include "tools/perf/report.h"

namespace rondo {

// Six significant digits: what a measurement is good for.
double Rounded(double value);

Json HostToJson(const HostFacts& host);

}  // namespace rondo
