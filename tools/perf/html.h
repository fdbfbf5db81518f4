// Makes one self-contained HTML page of the results, with charts as SVG and all rows as a table. The page needs no
// script and no network.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/case.h"
#include "tools/perf/report.h"

namespace rondo {

// For each collective, type, operation and root the page has two charts: bus bandwidth and median time, both by size. A
// chart has a line for each algorithm and placement. Sizes and times have logarithmic axes. Rows of size 0 are only in
// the table.
std::string ToHtml(const std::vector<PerfRow>& rows, const HostFacts& host);

}  // namespace rondo
