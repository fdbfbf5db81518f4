#include "tools/tune_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/algorithms/table.h"
#include "tools/perf_bench.h"
#include "tools/perf_case.h"

namespace rondo {
namespace {

// One way to run a size, and its time in each round.
struct Way {
  std::optional<Algorithm> algorithm;
  std::vector<double> us;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Nobody would take an algorithm that needs this many times as long as the best: measured twice, not in every round.
constexpr double kHopeless = 6;

std::vector<Way> WaysOf(Collective collective, bool with_choice) {
  std::vector<Way> ways;
  if (with_choice) ways.push_back({});
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == collective) ways.push_back({entry.algorithm, {}});
  if (with_choice) ways.push_back({});
  return ways;
}

Result<SweepRow> MeasureSize(PerfBench& bench, const PerfCase& size, const SweepOptions& options) {
  std::vector<Way> ways = WaysOf(size.collective, options.with_choice);
  SweepRow row;
  row.collective = size.collective;
  row.bytes = size.bytes();
  double best_us = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (Way& way : ways) {
      // All ranks know the same times. One that was slow once may have been disturbed.
      if (way.us.size() >= 2 && *std::min_element(way.us.begin(), way.us.end()) > kHopeless * best_us) continue;
      PerfCase which = size;
      which.algorithm = way.algorithm;
      RONDO_ASSIGN(const PerfRow measured, bench.Measure(which, /*in_place=*/false));
      way.us.push_back(std::max(measured.median_us, 1e-3));
      if (!way.algorithm) row.chosen = *ParseAlgorithm(measured.algorithm);
      if (best_us == 0 || way.us.back() < best_us) best_us = way.us.back();
    }
  }
  for (const Way& way : ways)
    if (way.algorithm) row.forced.push_back({*way.algorithm, Median(way.us)});
  if (options.with_choice) {
    const double first = Median(ways.front().us), second = Median(ways.back().us);
    std::vector<double> both = ways.front().us;
    both.insert(both.end(), ways.back().us.begin(), ways.back().us.end());
    row.chosen_us = Median(both);
    row.noise = std::max(first / second, second / first);
  }
  return row;
}

}  // namespace

const SweepRow::Time& SweepRow::Best() const {
  return *std::min_element(forced.begin(), forced.end(), [](const Time& a, const Time& b) { return a.us < b.us; });
}

Result<std::vector<SweepRow>> Sweep(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                                    const std::function<void(const SweepRow&)>& done) {
  PerfOptions measure;
  measure.collectives.values = options.collectives;
  measure.min_bytes = options.min_bytes;
  measure.max_bytes = options.max_bytes;
  measure.step_factor = options.step_factor;
  measure.time_per_size = options.time_per_round;
  measure.in_place = false;
  measure.check = false;  // rondo perf checks; here only time counts
  RONDO_ASSIGN(const std::vector<PerfCase> sizes, PlanCases(measure, communicator.world_size()));
  PerfBench bench(communicator, clock, "", [](const std::string&) {});
  RONDO_TRY(bench.Prepare(measure, sizes));
  std::vector<SweepRow> rows;
  for (const PerfCase& size : sizes) {
    RONDO_ASSIGN(SweepRow row, MeasureSize(bench, size, options));
    done(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Place& place) {
  std::vector<MeasuredWorld> worlds;
  const auto short_of = [](double us) { return std::stod(fmt::format("{:.4g}", us)); };
  for (const SweepRow& row : rows) {
    if (worlds.empty() || worlds.back().collective != row.collective) {
      worlds.push_back({row.collective, place.world_size(), place.crowded(), {}, {}, place.even_hosts()});
      for (const SweepRow::Time& time : row.forced) worlds.back().times.push_back({time.algorithm, {}});
    }
    MeasuredWorld& world = worlds.back();
    world.bytes.push_back(row.bytes);
    for (std::size_t i = 0; i < row.forced.size(); ++i) world.times[i].us.push_back(short_of(row.forced[i].us));
  }
  return worlds;
}

}  // namespace rondo
