// What `rondo perf send_recv --matrix` says about the pairs it has measured.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "tools/perf_matrix.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rondo {
namespace {

const std::vector<std::string> kNames = {"rank 0", "rank 1", "rank 2"};

PairRow Pair(Rank low, Rank high, double up_GBps, double down_GBps) {
  return {.low = low,
          .high = high,
          .latency_median_us = 10.0 * high,
          .up_GBps = up_GBps,
          .down_GBps = down_GBps,
          .both_GBps = up_GBps + down_GBps};
}

// The line of that rank in the table which `title` begins.
std::string RowOf(const MatrixReport& report, const std::string& title, Rank from) {
  const std::size_t table = report.table.find(title);
  const std::size_t row = report.table.find(kNames[static_cast<std::size_t>(from)], table);
  return table == std::string::npos || row == std::string::npos
             ? ""
             : report.table.substr(row, report.table.find('\n', row) - row);
}

TEST_CASE("each direction stands in the row of its sender, and a slow one is marked there alone") {
  const auto report = ReportOf({Pair(0, 1, 10, 11), Pair(0, 2, 10, 2), Pair(1, 2, 12, 10)}, kNames, {});
  CHECK(RowOf(report, "Bandwidth one way", 0) == "rank 0        -        10        10 ");
  CHECK(RowOf(report, "Bandwidth one way", 1) == "rank 1       11         -        12 ");
  CHECK(RowOf(report, "Bandwidth one way", 2) == "rank 2        2!       10         - ");
  REQUIRE(report.slow.size() == 1);
  CHECK(report.slow.front().low == 0);
  CHECK(report.slow.front().high == 2);
  CHECK(report.too_slow.empty());
}

TEST_CASE("what is true of a pair both ways stands on both sides of the diagonal") {
  const auto report = ReportOf({Pair(0, 1, 1, 2), Pair(0, 2, 3, 4), Pair(1, 2, 5, 6)}, kNames, {});
  CHECK(RowOf(report, "Bandwidth both ways", 1) == "rank 1        3         -        11 ");
  CHECK(RowOf(report, "Latency one way", 2) == "rank 2       20        20         - ");
}

TEST_CASE("min_gbps is in Gbit/s: one direction below it makes its pair too slow") {
  MatrixOptions options;
  options.min_gbps = 79;
  CHECK(ReportOf({Pair(0, 1, 10, 10)}, {"rank 0", "rank 1"}, options).too_slow.empty());
  options.min_gbps = 81;
  const auto report = ReportOf({Pair(0, 1, 10.2, 10)}, {"rank 0", "rank 1"}, options);
  REQUIRE(report.too_slow.size() == 1);
  CHECK(RowOf(report, "Bandwidth one way", 0) == "rank 0        -      10.2 ");
  CHECK(RowOf(report, "Bandwidth one way", 1) == "rank 1       10X        - ");
}

TEST_CASE("bandwidths are told in Gbit/s where that is asked for") {
  MatrixOptions options;
  options.gbits = true;
  const auto report = ReportOf({Pair(0, 1, 10, 5)}, {"rank 0", "rank 1"}, options);
  CHECK(RowOf(report, "Bandwidth one way", 0) == "rank 0        -        80 ");
  CHECK(report.table.find("Gbit/s; row to column") != std::string::npos);
}

}  // namespace
}  // namespace rondo
