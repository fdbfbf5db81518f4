// Tests baselines: earlier output of `rondo perf --json` is compared with new results, and any other file is refused.
#include <doctest/doctest.h>

#include <string>

#include "tools/perf/report.h"
#include "tools/perf/rows_json.h"

namespace rondo {
namespace perf_report_test {

PerfRow Row(double median_us) {
  PerfRow row;
  row.algorithm = "ring";
  row.transport = "tcp";
  row.ranks = 4;
  row.median_us = median_us;
  return row;
}

// The output of ToJson for one row of 10 us, in which `by` replaces `part`.
std::string Baseline(const std::string& part = "", const std::string& by = "") {
  std::string text = ToJson({Row(10)}, {.name = "a", .cpu = "some", .kernel = "Linux", .cores = 2});
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

TEST_CASE("A row is compared with the one that is alike in everything but its times") {
  const auto same = CompareWithBaseline({Row(10.9)}, Baseline(), 0.1);
  REQUIRE(same);
  CHECK(same->compared == 1);
  CHECK(same->regressions.empty());
  const auto slower = CompareWithBaseline({Row(11.1)}, Baseline(), 0.1);
  REQUIRE(slower);
  REQUIRE(slower->regressions.size() == 1);
  CHECK(slower->regressions[0].was_us == 10);
  CHECK(CompareWithBaseline({Row(10)}, Baseline("\"ranks\": 4", "\"ranks\": 5"), 0.1)->compared == 0);
}

TEST_CASE("Numbers that are none of ours are refused by their field, or are no row's") {
  const auto refused = [](const std::string& by) {
    const auto report = CompareWithBaseline({Row(10)}, Baseline("\"ranks\": 4", "\"ranks\": " + by), 0.1);
    REQUIRE(!report);
    CHECK(report.error().code() == ErrorCode::kInvalidArgument);
    return report.error().message().find("ranks must be a whole number") != std::string::npos;
  };
  CHECK(refused("4.5"));  // would be read as 4 if the fraction were dropped
  CHECK(refused("1e300"));
  CHECK(refused("\"4\""));
  CHECK(CompareWithBaseline({Row(10)}, Baseline("\"ranks\": 4", "\"ranks\": 4294967300"), 0.1)->compared == 0);
  CHECK(!CompareWithBaseline({Row(10)}, "{\"rows\": 7}", 0.1));
  CHECK(!CompareWithBaseline({Row(10)}, "", 0.1));
  CHECK(!CompareWithBaseline({Row(10)}, "{\"a\": " + std::string(1'000'000, '['), 0.1));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  CHECK(!CompareWithBaseline({Row(10)}, "{\"a\": " + deep + ", \"rows\": []}", 0.1));
}

}  // namespace perf_report_test
}  // namespace rondo
