#include "tools/perf/report.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <tuple>

#include "base/version.h"
#include "tools/perf/json.h"

namespace rondo {
namespace {

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string RootText(const PerfCase& of) { return of.has_root() ? fmt::format("{}", of.root) : "-"; }

// Times and rates with about four significant digits in a narrow column.
std::string Short(double value) {
  if (value >= 100'000) return fmt::format("{:.0f}", value);
  return value >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string Half(const std::optional<PerfRow>& row) {
  if (!row) return fmt::format("{:>9} {:>9} {:>7} {:>7} {:>6}", "-", "-", "-", "-", "-");
  const bool has_data = PerfCase::HasData(row->of.collective);
  return fmt::format("{:>9} {:>9} {:>7} {:>7} {:>6}", Short(row->median_us), Short(row->p99_us),
                     has_data ? fmt::format("{:.2f}", row->AlgorithmGBps()) : "-",
                     has_data ? fmt::format("{:.2f}", row->BusGBps()) : "-",
                     row->wrong ? fmt::format("{}", *row->wrong) : "N/A");
}

std::string Expected(const PerfRow& row) {
  if (row.expected_us <= 0) return "-";
  return (row.expected_measured ? "" : "~") + Short(row.expected_us);
}

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
              {"wide_partials", row.of.wide_partials},
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

// What makes two rows comparable: everything but numbers measured.
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
          row.of.wide_partials,
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
  const auto mode = [&](const char* key) { return row.value(key, false); };  // files of 0.1 have none
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
          mode("wide_partials"),
          mode("checksums"),
          mode("compare_results"),
          row.contains("rails") ? rank("rails") : 1,
          row.value("device", std::string(Name(PerfMemory::kHost)))};
}

// What reproducible mode takes: per row its time over that of the free choice.
std::string CostOfFolding(const std::vector<PerfRow>& rows) {
  std::vector<double> ratios;
  for (const PerfRow& folded : rows) {
    if (!folded.of.reproducible || folded.of.algorithm) continue;  // free to choose, but for the order of operands
    const auto free = std::find_if(rows.begin(), rows.end(), [&](const PerfRow& row) {
      return !row.of.reproducible && !row.of.algorithm && row.of.collective == folded.of.collective &&
             row.of.bytes() == folded.of.bytes() && row.of.type == folded.of.type && row.of.op == folded.of.op &&
             row.of.root == folded.of.root && row.in_place == folded.in_place;
    });
    if (free != rows.end() && free->median_us > 0) ratios.push_back(folded.median_us / free->median_us);
  }
  if (ratios.empty()) return "";
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return fmt::format(
      "# Reproducible mode: {:.3g} times the free choice's time (geometric mean of {} rows, {:.3g} to {:.3g})\n",
      std::exp(logarithms / static_cast<double>(ratios.size())), ratios.size(), *least, *most);
}

}  // namespace

HostFacts ThisHost() {
  utsname names{};
  ::uname(&names);
  return {names.nodename, CpuName(), fmt::format("{} {}", names.sysname, names.release),
          static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))};
}

std::string TableHead(const std::string& title, bool predicted) {
  const std::string half = fmt::format("{:>9} {:>9} {:>7} {:>7} {:>6}", "time", "p99", "algbw", "busbw", "#wrong");
  const std::string units = fmt::format("{:>9} {:>9} {:>7} {:>7} {:>6}", "(us)", "(us)", "(GB/s)", "(GB/s)", "");
  const auto last = [&](const char* text) { return predicted ? fmt::format(" | {:>9}", text) : ""; };
  return fmt::format("# {}\n# {:>56} {:>10} | {:^42} | {:^42}{}\n", title, "", "", "out of place", "in place",
                     last("")) +
         fmt::format("# {:>12} {:>12} {:>8} {:>10} {:>4} {:>18} {:>9} | {} | {}{}\n", "size", "count", "type", "redop",
                     "root", "algorithm", "transport", half, half, last("expected")) +
         fmt::format("# {:>12} {:>12} {:>8} {:>10} {:>4} {:>18} {:>9} | {} | {}{}\n", "(B)", "(elements)", "", "", "",
                     "", "", units, units, last("(us)"));
}

std::string TableLine(const std::optional<PerfRow>& out_of_place, const std::optional<PerfRow>& in_place,
                      bool predicted) {
  const PerfRow& row = out_of_place ? *out_of_place : *in_place;
  return fmt::format("  {:>12} {:>12} {:>8} {:>10} {:>4} {:>18} {:>9} | {} | {}{}\n", row.of.bytes(), row.of.count,
                     row.of.TypeName(), row.of.OpName(), RootText(row.of), row.AlgorithmText(), row.transport,
                     Half(out_of_place), Half(in_place), predicted ? fmt::format(" | {:>9}", Expected(row)) : "");
}

std::string TableFoot(const std::vector<PerfRow>& rows) {
  double sum_GBps = 0;
  std::size_t with_data = 0;
  bool all_checked = true;
  for (const PerfRow& row : rows) {
    all_checked = all_checked && row.wrong.has_value();
    if (!PerfCase::HasData(row.of.collective)) continue;
    sum_GBps += row.BusGBps();
    ++with_data;
  }
  std::string foot = fmt::format(
      "# Wrong values     : {}\n",
      all_checked ? fmt::format("{}{}", CountWrong(rows), CountWrong(rows) == 0 ? " OK" : "") : "not checked");
  if (with_data > 0) {
    foot += fmt::format("# Average bus bandwidth: {:.4g} GB/s\n", sum_GBps / static_cast<double>(with_data));
  }
  return foot + CostOfFolding(rows);
}

std::string ToJson(const std::vector<PerfRow>& rows, const HostFacts& host) {
  Json list = Json::array();
  for (const PerfRow& row : rows) list.push_back(RowToJson(row));
  const Json all{{"rondo", kRondoVersion}, {"host", HostToJson(host)}, {"rows", std::move(list)}};
  return all.dump(1) + "\n";
}

std::string ToCsv(const std::vector<PerfRow>& rows) {
  std::string text =
      "collective,algorithm,transport,ranks,bytes,count,dtype,op,root,in_place,uneven,reproducible,wide_partials,"
      "checksums,compare_results,rails,device,iters,"
      "time_us_min,time_us_median,"
      "time_us_p99,time_us_max,expected_us,expected_measured,algbw_GBps,busbw_GBps,wrong\n";
  for (const PerfRow& row : rows) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{:.6g},{:.6g},{}"
        "\n",
        row.of.Kind(), row.algorithm, row.transport, row.ranks, row.of.bytes(), row.of.count, row.of.TypeName(),
        row.of.OpName(), row.of.root, row.in_place, row.of.uneven, row.of.reproducible, row.of.wide_partials,
        row.of.checksums, row.of.compare_results, row.of.rails, Name(row.of.memory), row.iterations, row.min_us,
        row.median_us, row.p99_us, row.max_us, row.expected_us, row.expected_measured, row.AlgorithmGBps(),
        row.BusGBps(), row.wrong ? fmt::format("{}", *row.wrong) : "");
  }
  return text;
}

std::uint64_t CountWrong(const std::vector<PerfRow>& rows) {
  std::uint64_t wrong = 0;
  for (const PerfRow& row : rows) wrong += row.wrong.value_or(0);
  return wrong;
}

Result<BaselineReport> CompareWithBaseline(const std::vector<PerfRow>& rows, std::string_view baseline_json,
                                           double max_regression) {
  std::map<RowIdentity, double> baseline;
  try {
    const Json parsed = ParseJson(baseline_json);
    for (const Json& row : parsed.at("rows")) baseline[IdentityOf(row)] = row.at("time_us").at("median");
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, "not what `rondo perf --json` writes: {}", JsonReason(error));
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
