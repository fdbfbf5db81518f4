// tools/perf/report: a baseline, that is an earlier output of `rondo perf --json`, or any other file.
#include "tests/fuzz/harness.h"
#include "tools/perf/rows_json.h"

namespace rondo::fuzz::perf_baseline_fuzz {
std::vector<PerfRow> Rows() {
  PerfRow row;
  row.algorithm = "ring";
  row.transport = "tcp";
  row.ranks = 4;
  row.iterations = 20;
  row.min_us = 9;
  row.median_us = 10;
  row.p99_us = 15;
  row.max_us = 20;
  row.wrong = 0;
  PerfRow other = row;
  other.in_place = true;
  return {row, other};
}

Corpus HarnessCorpus() {
  const HostFacts host{.name = "a", .cpu = "some", .kernel = "Linux", .cores = 2};
  return {.seeds = {ToJson(Rows(), host), ToJson({}, host), "{\"rows\": 7}", "{\"rows\": [[[[[["},
          .words = {"\"rows\":", "\"time_us\":", "\"median\":", "\"ranks\":", "\"bytes\":", "\"root\":", "1e300", "-1",
                    "2.5", "18446744073709551616", "null", "[[[["}};
}

void CheckInput(std::string_view input) {
  const std::vector<PerfRow> rows = Rows();
  const Allocations allocations;
  const Result<BaselineReport> report = CompareWithBaseline(rows, input, 0.1);
  allocations.CheckLargest(65536 + 128 * input.size());
  CheckError(report);
  if (!report) return;
  RONDO_HOLDS(report->compared <= rows.size() && report->regressions.size() <= report->compared);
  for (const Regression& regression : report->regressions)
    RONDO_HOLDS(regression.now.median_us > regression.was_us * 1.1);
}

}  // namespace rondo::fuzz::perf_baseline_fuzz
