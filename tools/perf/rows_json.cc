#include "tools/perf/rows_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "base/version.h"
#include "tools/perf/json_values.h"

namespace rondo {
namespace {

Json RowToJson(const PerfRow& row) {
  return Json{{"collective", row.of.Kind()},
              {"algorithm", row.algorithm},
              {"transport", row.transport},
              {"ranks", row.ranks},
              {"bytes", row.of.bytes()},
              {"count", row.of.count},
              {"dtype", row.of.TypeName()},
              {"op", row.of.OpName()},
              {"root", row.of.root},
              {"in_place", row.in_place},
              {"uneven", row.of.uneven},
              {"reproducible", row.of.reproducible},
              {"fp32_accumulate", row.of.fp32_accumulate},
              {"checksums", row.of.checksums},
              {"compare_results", row.of.compare_results},
              {"rails", row.of.rails},
              {"device", Name(row.of.memory)},
              {"iters", row.iterations},
              {"time_us",
               {{"min", Rounded(row.min_us)},
                {"median", Rounded(row.median_us)},
                {"p99", Rounded(row.p99_us)},
                {"max", Rounded(row.max_us)}}},
              {"expected_us", Rounded(row.expected_us)},
              {"expected_measured", row.expected_measured},
              {"algbw_GBps", Rounded(row.AlgorithmGBps())},
              {"busbw_GBps", Rounded(row.BusGBps())},
              {"wrong", row.wrong ? Json(*row.wrong) : Json(nullptr)}};
}

// Two rows are comparable if these fields are equal: all fields except the measured ones.
using RowIdentity = std::tuple<std::string, std::string, std::string, int, std::uint64_t, std::string, std::string,
                               Rank, bool, bool, bool, bool, bool, bool, int, std::string>;

RowIdentity IdentityOf(const PerfRow& row) {
  return {std::string(row.of.Kind()),
          row.algorithm,
          row.transport,
          row.ranks,
          row.of.bytes(),
          std::string(row.of.TypeName()),
          std::string(row.of.OpName()),
          row.of.root,
          row.in_place,
          row.of.uneven,
          row.of.reproducible,
          row.of.fp32_accumulate,
          row.of.checksums,
          row.of.compare_results,
          static_cast<int>(row.of.rails),
          std::string(Name(row.of.memory))};
}

RowIdentity IdentityOf(const Json& row) {
  const auto whole = [&](const char* key) { return WholeNumberAt(row, key); };
  const auto rank = [&](const char* key) {
    return static_cast<int>(std::clamp<std::int64_t>(whole(key), INT32_MIN, INT32_MAX));
  };
  const auto mode = [&](const char* key) { return row.value(key, false); };  // files of version 0.1 lack these keys
  return {row.at("collective"),
          row.at("algorithm"),
          row.at("transport"),
          rank("ranks"),
          static_cast<std::uint64_t>(whole("bytes")),
          row.at("dtype"),
          row.at("op"),
          rank("root"),
          row.at("in_place"),
          mode("uneven"),
          mode("reproducible"),
          mode("fp32_accumulate"),
          mode("checksums"),
          mode("compare_results"),
          row.contains("rails") ? rank("rails") : 1,
          row.value("device", std::string(Name(PerfMemory::kHost)))};
}

}  // namespace

std::string ToJson(const std::vector<PerfRow>& rows, const HostFacts& host) {
  Json list = Json::array();
  for (const PerfRow& row : rows) list.push_back(RowToJson(row));
  const Json all{{"rondo", kRondoVersion}, {"host", HostToJson(host)}, {"rows", std::move(list)}};
  return all.dump(1) + "\n";
}

std::string ToCsv(const std::vector<PerfRow>& rows) {
  std::string text =
      "collective,algorithm,transport,ranks,bytes,count,dtype,op,root,in_place,uneven,reproducible,fp32_accumulate,"
      "checksums,compare_results,rails,device,iters,"
      "time_us_min,time_us_median,"
      "time_us_p99,time_us_max,expected_us,expected_measured,algbw_GBps,busbw_GBps,wrong\n";
  for (const PerfRow& row : rows) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{:.6g},{:.6g},{}"
        "\n",
        row.of.Kind(), row.algorithm, row.transport, row.ranks, row.of.bytes(), row.of.count, row.of.TypeName(),
        row.of.OpName(), row.of.root, row.in_place, row.of.uneven, row.of.reproducible, row.of.fp32_accumulate,
        row.of.checksums, row.of.compare_results, row.of.rails, Name(row.of.memory), row.iterations, row.min_us,
        row.median_us, row.p99_us, row.max_us, row.expected_us, row.expected_measured, row.AlgorithmGBps(),
        row.BusGBps(), row.wrong ? fmt::format("{}", *row.wrong) : "");
  }
  return text;
}

Result<BaselineReport> CompareWithBaseline(const std::vector<PerfRow>& rows, std::string_view baseline_json,
                                           double max_regression) {
  std::map<RowIdentity, double> baseline;
  try {
    const Json parsed = ParseJson(baseline_json);
    for (const Json& row : parsed.at("rows")) baseline[IdentityOf(row)] = row.at("time_us").at("median");
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, "this is not what `rondo perf --json` writes: {}", JsonReason(error));
  }
  BaselineReport report;
  for (const PerfRow& row : rows) {
    const auto was = baseline.find(IdentityOf(row));
    if (was == baseline.end()) continue;
    ++report.compared;
    if (row.median_us > was->second * (1 + max_regression)) report.regressions.push_back({row, was->second});
  }
  return report;
}

}  // namespace rondo
