// Writes the rows of `rondo perf` as JSON and CSV, and compares them with the JSON of an earlier run.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/perf/case.h"
#include "tools/perf/report.h"

namespace rondo {

// {"rondo": version, "host": {...}, "rows": [...]}; docs/MEASURING.md lists the keys.
std::string ToJson(const std::vector<PerfRow>& rows, const HostFacts& host);
// A header line and a line for each row, with the fields of the JSON. Names of nested fields are joined by "_".
std::string ToCsv(const std::vector<PerfRow>& rows);

// A row that is slower than in an earlier run.
struct Regression {
  PerfRow now;
  double was_us = 0;
};
struct BaselineReport {
  std::size_t compared = 0;  // the number of rows that are also in the baseline
  std::vector<Regression> regressions;
};
// Compares the median of each row with the median of the matching row of `baseline_json` (a result of ToJson). Rows
// match if all their fields except the measured ones are equal. `max_regression`: 0.1 allows 10% more time than in the
// baseline. kInvalidArgument: the text is not such JSON.
Result<BaselineReport> CompareWithBaseline(const std::vector<PerfRow>& rows, std::string_view baseline_json,
                                           double max_regression);

}  // namespace rondo
