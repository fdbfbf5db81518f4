// Writes a matrix of pairs as JSON and CSV, and compares it with an earlier JSON. All functions are pure.
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

// Writes one end of a path as JSON; unknown fields are null. LinkFromJson reads it back, and throws Json::exception if
// it is malformed.
Json LinkToJson(const LinkEnd& link);
LinkEnd LinkFromJson(const Json& json);

// {"rondo": version, "host": {...}, "matrix": {...}, "ranks": [...], "pairs": [...]}. "pairs" has an entry for each
// ordered pair. A value that covers both directions together is in the entries of both directions.
std::string MatrixToJson(const Matrix& matrix, const HostFacts& host);
// A header line and a line for each ordered pair. Names of nested fields are joined by "_".
std::string MatrixToCsv(const Matrix& matrix);

// The values of an earlier matrix, with which a new matrix is compared.
class MatrixBaseline {
 public:
  // kInvalidArgument: the text is not the result of MatrixToJson.
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
    std::size_t compared = 0;  // the number of ordered pairs that are also in the baseline
    std::vector<Regression> regressions;
  };
  // kInvalidArgument: the baseline was measured with other message sizes, another number of messages, or another
  // checksum setting; the error says which.
  Status CheckComparable(const MatrixOptions& options) const;
  // Compares pairs with equal rank numbers, rail and transport. Host names are not compared, because they may change.
  // Latency and "both ways" are the same in both directions, so they are reported once. `max_regression`: 0.1 allows
  // 10% more latency than in the baseline; for bandwidth it allows 10% more time per message. REQUIRES: CheckComparable
  // succeeded.
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
