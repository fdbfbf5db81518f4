#include "tools/tune/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "collectives/algorithms/table.h"
#include "tools/perf/bench.h"
#include "tools/perf/case.h"

namespace rondo {
namespace {

// A choice is bad if it takes more than kMayCost * Noise() times as long as the best algorithm. This must be true of
// the median times, and of the times in at least the share kPartOfRounds of the rounds.
constexpr double kMayCost = 1.1;
constexpr double kPartOfRounds = 0.8;

// An algorithm that takes this many times as long as the best is never chosen, so it is measured only in two rounds.
constexpr double kHopeless = 6;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

SweepRow EmptyRow(const PerfCase& size) {
  SweepRow row;
  row.collective = size.collective;
  row.bytes = size.bytes();
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == size.collective) row.forced.push_back({entry.algorithm, {}});
  return row;
}

double LeastOf(const SweepRow& row) {
  double least = 0;
  for (const SweepRow::Way& way : row.forced)
    for (const double us : way.us) least = least == 0 ? us : std::min(least, us);
  return least;
}

// All ranks have the same times, so they decide in the same way. Two measurements are needed, because one may have been
// disturbed.
bool IsHopeless(const SweepRow::Way& way, double least_us) {
  return way.us.size() >= 2 && *std::min_element(way.us.begin(), way.us.end()) > kHopeless * least_us;
}

Status MeasureSize(PerfBench& bench, const PerfCase& size, bool with_choice, SweepRow& row) {
  const auto measure = [&](std::optional<Algorithm> algorithm, std::vector<double>& us) -> Status {
    PerfCase which = size;
    which.algorithm = algorithm;
    RONDO_ASSIGN(const PerfRow measured, bench.Measure(which, /*in_place=*/false));
    us.push_back(std::max(measured.median_us, 1e-3));
    if (!algorithm) row.chosen = *ParseAlgorithm(measured.algorithm);
    return {};
  };
  const double least_us = LeastOf(row);
  if (with_choice) RONDO_TRY(measure(std::nullopt, row.chosen_first_us));
  for (SweepRow::Way& way : row.forced)
    if (!IsHopeless(way, least_us)) RONDO_TRY(measure(way.algorithm, way.us));
  if (with_choice) RONDO_TRY(measure(std::nullopt, row.chosen_last_us));
  return {};
}

}  // namespace

double SweepRow::Way::Us() const { return Median(us); }

const SweepRow::Way& SweepRow::Best() const {
  return *std::min_element(forced.begin(), forced.end(), [](const Way& a, const Way& b) { return a.Us() < b.Us(); });
}

double SweepRow::ChosenUs() const {
  std::vector<double> both = chosen_first_us;
  both.insert(both.end(), chosen_last_us.begin(), chosen_last_us.end());
  return Median(both);
}

double SweepRow::Noise() const {
  const double first = Median(chosen_first_us), last = Median(chosen_last_us);
  return std::max(first / last, last / first);
}

bool SweepRow::Missed() const {
  const Way& best = Best();
  const double noise = Noise();
  if (chosen == best.algorithm || ChosenUs() <= kMayCost * noise * best.Us()) return false;
  double missed = 0;
  for (std::size_t round = 0; round < best.us.size(); ++round) {
    const double chosen_us = (chosen_first_us[round] + chosen_last_us[round]) / 2;
    missed += chosen_us > kMayCost * noise * best.us[round] ? 1 : 0;
  }
  return missed >= kPartOfRounds * static_cast<double>(best.us.size());
}

Status SweepOnce(Communicator& communicator, const Clock& clock, const SweepOptions& options,
                 std::vector<SweepRow>& rows) {
  PerfOptions measure;
  measure.collectives.values = options.collectives;
  measure.min_bytes = options.min_bytes;
  measure.max_bytes = options.max_bytes;
  measure.step_factor = options.step_factor;
  measure.time_per_size = options.time_per_round;
  measure.in_place = false;
  measure.check = false;  // data is not checked, because `rondo perf` does that; here only the time is needed
  RONDO_ASSIGN(const std::vector<PerfCase> sizes, PlanCases(measure, communicator.world_size()));
  PerfBench bench(communicator, clock, [](const std::string&) {});
  RONDO_TRY(bench.Prepare(measure, sizes));
  if (rows.empty()) std::transform(sizes.begin(), sizes.end(), std::back_inserter(rows), EmptyRow);
  RONDO_CHECK(rows.size() == sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) RONDO_TRY(MeasureSize(bench, sizes[i], options.with_choice, rows[i]));
  return {};
}

std::vector<MeasuredWorld> ToMeasured(const std::vector<SweepRow>& rows, const Topology& topology) {
  std::vector<MeasuredWorld> worlds;
  const auto short_of = [](double us) { return std::stod(fmt::format("{:.4g}", us)); };
  for (const SweepRow& row : rows) {
    if (worlds.empty() || worlds.back().collective != row.collective) {
      worlds.push_back(
          {row.collective, topology.world_size(), topology.oversubscribed(), {}, {}, topology.even_hosts()});
      for (const SweepRow::Way& way : row.forced) worlds.back().times.push_back({way.algorithm, {}});
    }
    MeasuredWorld& world = worlds.back();
    world.bytes.push_back(row.bytes);
    for (std::size_t i = 0; i < row.forced.size(); ++i) world.times[i].us.push_back(short_of(row.forced[i].Us()));
  }
  return worlds;
}

}  // namespace rondo
