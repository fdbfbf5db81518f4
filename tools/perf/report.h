// What `rondo perf` says: a table for people, JSON and CSV for programs, a page with charts (html.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/perf/case.h"

namespace rondo {

// The machine that measured, for whoever compares results later.
struct HostFacts {
  std::string name;
  std::string cpu;
  std::string kernel;
  int cores = 0;
};
HostFacts ThisHost();

// The table's head, one line per case with its out-of-place and in-place halves, and the lines at the end.
// `predicted`: with a last column for what the profile promised.
std::string TableHead(const std::string& title, bool predicted);
std::string TableLine(const std::optional<PerfRow>& out_of_place, const std::optional<PerfRow>& in_place,
                      bool predicted);
std::string TableFoot(const std::vector<PerfRow>& rows);

// {"rondo": version, "host": {...}, "rows": [...]}: docs/MEASURING.md lists the keys.
std::string ToJson(const std::vector<PerfRow>& rows, const HostFacts& host);
// A head line and a line per row; the same fields as in JSON, nested ones joined by "_".
std::string ToCsv(const std::vector<PerfRow>& rows);

std::uint64_t CountWrong(const std::vector<PerfRow>& rows);

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
