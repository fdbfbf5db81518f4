// The results as one self-contained HTML page: charts as SVG, all rows as a table, no script, no network.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/case.h"
#include "tools/perf/report.h"

namespace rondo {

// For each collective, type, operation and root the page has two charts over the size: bus bandwidth and median time. A
// chart has a line for each algorithm and placement. Sizes and times have logarithmic axes. Rows of size 0 are only in
// the table.
std::string ToHtml(const std::vector<PerfRow>& rows, const HostFacts& host);

}  // namespace rondo
