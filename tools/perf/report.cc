#include "tools/perf/report.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

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

// Formats times and rates with about four significant digits for a narrow column.
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

// The cost of reproducible mode: for each row, its time divided by the time of the algorithm that the library chooses
// without this mode.
std::string CostOfFolding(const std::vector<PerfRow>& rows) {
  std::vector<double> ratios;
  for (const PerfRow& folded : rows) {
    // The comparison uses only rows whose algorithm the library chose.
    if (!folded.of.reproducible || folded.of.algorithm) continue;
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
      "# Reproducible mode: takes {:.3g} times as long as the freely chosen algorithm (geometric mean of {} rows, "
      "{:.3g} to {:.3g})\n",
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

std::uint64_t CountWrong(const std::vector<PerfRow>& rows) {
  std::uint64_t wrong = 0;
  for (const PerfRow& row : rows) wrong += row.wrong.value_or(0);
  return wrong;
}

}  // namespace rondo
