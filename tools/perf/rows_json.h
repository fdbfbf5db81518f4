// The rows of `rondo perf` for programs: JSON, CSV, and the comparison with an earlier run's JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/perf/case.h"
#include "tools/perf/report.h"

namespace rondo {

// {"rondo": version, "host": {...}, "rows": [...]}: docs/MEASURING.md lists the keys.
std::string ToJson(const std::vector<PerfRow>& rows, const HostFacts& host);
// A head line and a line per row; the same fields as in JSON, nested ones joined by "_".
std::string ToCsv(const std::vector<PerfRow>& rows);

// A regression against an earlier run.
struct Regression {
  PerfRow now;
  double was_us = 0;
};
struct BaselineReport {
  std::size_t compared = 0;  // rows that the baseline has too
  std::vector<Regression> regressions;
};
// Compares medians with the rows of `baseline_json` (what ToJson gave) that are alike in everything but their times.
// `max_regression`: 0.1 lets a row take 10% longer. kInvalidArgument: not such a JSON text.
Result<BaselineReport> CompareWithBaseline(const std::vector<PerfRow>& rows, std::string_view baseline_json,
                                           double max_regression);

}  // namespace rondo
