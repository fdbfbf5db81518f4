// A matrix of pairs for programs: JSON, CSV, and what an earlier JSON says against it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/perf/json_values.h"
#include "tools/perf/matrix_report.h"
#include "tools/perf/report.h"

namespace rondo {

// An end of a path; null for what is not known. LinkFromJson reads it back; it throws Json::exception.
Json LinkToJson(const LinkEnd& link);
LinkEnd LinkFromJson(const Json& json);

// {"rondo": version, "host": {...}, "matrix": {...}, "ranks": [...], "pairs": [...]}: an entry of "pairs" per ordered
// pair; what is true of both directions stands in both.
std::string MatrixToJson(const Matrix& matrix, const HostFacts& host);
// A head line and a line per ordered pair; nested fields joined by "_".
std::string MatrixToCsv(const Matrix& matrix);

// An earlier matrix, as far as it can be compared.
class MatrixBaseline {
 public:
  // kInvalidArgument: not what MatrixToJson gave.
  static Result<MatrixBaseline> Parse(std::string_view json);

  struct Regression {
    Rank from = 0;
    Rank to = 1;
    std::uint32_t rail = 0;
    const char* what = "";  // "bandwidth", "latency" or "both ways"
    const char* unit = "";
    double now = 0;
    double was = 0;
  };
  struct Report {
    std::size_t compared = 0;  // ordered pairs that the baseline has too
    std::vector<Regression> regressions;
  };
  // kInvalidArgument: it was measured with other messages, and which.
  Status CheckComparable(const MatrixOptions& options) const;
  // Ranks are known by their numbers, for hosts come and go; latency and both ways, the same there and back, are told
  // once. `max_regression`: 0.1 lets a message take 10% longer. REQUIRES: CheckComparable.
  Report Compare(const Matrix& matrix, double max_regression) const;

 private:
  struct Entry {
    Rank from = 0;
    Rank to = 1;
    std::int64_t rail = 0;
    std::string transport;
    double GBps = 0;
    double both_GBps = 0;
    double latency_us = 0;
  };
  std::uint64_t latency_bytes_ = 0;
  std::uint64_t bandwidth_bytes_ = 0;
  std::int64_t in_flight_ = 0;
  bool checksums_ = false;
  std::vector<Entry> entries_;
};

}  // namespace rondo
