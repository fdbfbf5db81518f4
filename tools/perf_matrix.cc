#include "tools/perf_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "base/out_of_memory.h"
#include "tools/progress.h"
#include "tools/sizes.h"

namespace rondo {
namespace {

constexpr Tag kRow = 100;
// Of the median over all pairs: less is marked.
constexpr double kUsual = 0.7;

using Packed = std::array<double, 9>;

Packed Pack(const PairRow& row) {
  return {static_cast<double>(row.low),
          static_cast<double>(row.high),
          row.latency_min_us,
          row.latency_median_us,
          row.latency_p99_us,
          row.up_GBps,
          row.down_GBps,
          row.both_GBps,
          static_cast<double>(row.wrong)};
}

PairRow Unpack(const Packed& packed) {
  return {.low = static_cast<Rank>(packed[0]),
          .high = static_cast<Rank>(packed[1]),
          .latency_min_us = packed[2],
          .latency_median_us = packed[3],
          .latency_p99_us = packed[4],
          .up_GBps = packed[5],
          .down_GBps = packed[6],
          .both_GBps = packed[7],
          .wrong = static_cast<std::uint64_t>(packed[8])};
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// One number per ordered pair; `mark` of it stands behind.
template <typename Number, typename Mark>
std::string Table(std::size_t ranks, const std::vector<std::string>& names, Number number, Mark mark) {
  std::size_t width = 4;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text = fmt::format("  {:>4} {:<{}}", "from", "", width);
  for (std::size_t to = 0; to < ranks; ++to) text += fmt::format(" {:>8} ", fmt::format("to {}", to));
  text += "\n";
  for (std::size_t from = 0; from < ranks; ++from) {
    text += fmt::format("  {:>4} {:<{}}", from, names[from], width);
    for (std::size_t to = 0; to < ranks; ++to)
      text += from == to ? fmt::format(" {:>8} ", "-") : fmt::format(" {:>8.4g}{}", number(from, to), mark(from, to));
    text += "\n";
  }
  return text;
}

}  // namespace

MatrixReport ReportOf(const std::vector<PairRow>& rows, const std::vector<std::string>& names,
                      const MatrixOptions& options) {
  MatrixReport report;
  const std::size_t ranks = names.size();
  const double factor = options.gbits ? 8 : 1;
  const char* const unit = options.gbits ? "Gbit/s" : "GB/s";
  std::vector<std::vector<const PairRow*>> of(ranks, std::vector<const PairRow*>(ranks));
  std::vector<double> bandwidths;
  for (const PairRow& row : rows) {
    of[static_cast<std::size_t>(row.low)][static_cast<std::size_t>(row.high)] = &row;
    of[static_cast<std::size_t>(row.high)][static_cast<std::size_t>(row.low)] = &row;
    bandwidths.push_back(row.up_GBps);
    bandwidths.push_back(row.down_GBps);
  }
  const double usual = MedianOf(bandwidths);
  const auto is_slow = [&](double gbps) { return gbps < kUsual * usual; };
  const auto is_too_slow = [&](double gbps) { return options.min_gbps && gbps * 8 < *options.min_gbps; };
  const auto bandwidth = [&](std::size_t from, std::size_t to) {
    return from < to ? of[from][to]->up_GBps : of[from][to]->down_GBps;
  };
  const auto mark = [&](std::size_t from, std::size_t to) {
    const double gbps = bandwidth(from, to);
    return is_too_slow(gbps) ? 'X' : is_slow(gbps) ? '!' : ' ';
  };
  const auto none = [](std::size_t, std::size_t) { return ' '; };

  report.table +=
      fmt::format("# Bandwidth one way, {} messages, {} at once ({}; row to column; ! under {:.0f}% of the median{})\n",
                  FormatSize(options.pair.bandwidth_bytes), options.pair.in_flight, unit, 100 * kUsual,
                  options.min_gbps ? fmt::format(", X under {:g} Gbit/s", *options.min_gbps) : "");
  report.table += Table(
      ranks, names, [&](std::size_t from, std::size_t to) { return factor * bandwidth(from, to); }, mark);
  report.table += fmt::format("# Bandwidth both ways at once, added up ({})\n", unit);
  report.table += Table(
      ranks, names, [&](std::size_t from, std::size_t to) { return factor * of[from][to]->both_GBps; }, none);
  report.table += fmt::format("# Latency one way, {} (us; half of there and back, median)\n",
                              FormatSize(options.pair.latency_bytes));
  report.table += Table(
      ranks, names, [&](std::size_t from, std::size_t to) { return of[from][to]->latency_median_us; }, none);
  for (const PairRow& row : rows) {
    if (is_slow(row.up_GBps) || is_slow(row.down_GBps)) report.slow.push_back(row);
    if (is_too_slow(row.up_GBps) || is_too_slow(row.down_GBps)) report.too_slow.push_back(row);
  }
  return report;
}

namespace {

Result<bool> MeasureOrThrow(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                            const std::string& head, std::FILE* out) {
  const Rank self = communicator.rank();
  const int ranks = communicator.world_size();
  PairBench bench(communicator, clock, options.pair);
  std::vector<PairRow> rows;
  Progress progress(clock, self == 0 ? static_cast<std::size_t>(ranks * (ranks - 1) / 2) : 0);
  for (Rank low = 0; low < ranks; ++low) {
    for (Rank high = low + 1; high < ranks; ++high) {
      if (self == 0) progress.Update(rows.size(), fmt::format("rank {} and rank {}", low, high));
      RONDO_ASSIGN(PairRow row, bench.Measure(low, high));
      // Each end finds its own wrong bytes; the lower tells all of it to rank 0.
      const auto count = static_cast<std::size_t>(std::tuple_size_v<Packed>);
      if (self == high) RONDO_TRY(communicator.Send(&row.wrong, 1, DataType::kUint64, low, kRow));
      if (self == low) {
        std::uint64_t theirs = 0;
        RONDO_TRY(communicator.Recv(&theirs, 1, DataType::kUint64, high, kRow));
        row.wrong += theirs;
      }
      Packed packed = Pack(row);
      RONDO_TRY(communicator.Broadcast(packed.data(), packed.data(), count, DataType::kFloat64, low));
      rows.push_back(Unpack(packed));
    }
  }
  if (self == 0) progress.Clear();
  std::vector<std::string> names;
  for (Rank rank = 0; rank < ranks; ++rank) names.push_back(fmt::format("rank {}", rank));
  const MatrixReport report = ReportOf(rows, names, options);
  std::uint64_t wrong = 0;
  for (const PairRow& row : rows) wrong += row.wrong;
  if (self == 0) {
    fmt::print(out, "{}{}# Wrong values     : {} {}\n", head, report.table, wrong, wrong == 0 ? "OK" : "WRONG");
    std::istringstream paths(communicator.DescribePaths());
    for (std::string line; std::getline(paths, line);) fmt::print(out, "# Path to {}\n", line);
  }
  return wrong == 0 && report.too_slow.empty();
}

}  // namespace

Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const std::string& head, std::FILE* out) {
  return OrOutOfMemory("measuring pairs of ranks",
                       [&] { return MeasureOrThrow(communicator, clock, options, head, out); });
}

}  // namespace rondo
