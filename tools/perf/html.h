// A measurement as one page that needs nothing else: charts as SVG, the rows as a table, no script, no network.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/case.h"
#include "tools/perf/report.h"

namespace rondo {

// Per collective, type, operation and root two charts over the size: bus bandwidth and median time, a line per
// algorithm and placement. Sizes and times are on logarithmic axes; rows of size 0 are in the table only.
std::string ToHtml(const std::vector<PerfRow>& rows, const HostFacts& host);

}  // namespace rondo
