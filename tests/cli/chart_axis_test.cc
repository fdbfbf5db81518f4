// Tests the axes of the page that rondo perf --html writes: they have round numbers, and no label is cut off.
#include "tools/perf/chart_axis.h"

#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "tools/perf/html.h"

namespace rondo {
namespace chart_axis_test {

// Whether the value is 1, 2 or 5 times a power of ten.
bool IsRound(double value) {
  const double digits = value / std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  for (const double round : {1.0, 2.0, 5.0})
    if (std::abs(digits - round) < 1e-6) return true;
  return false;
}

TEST_CASE("Linear ticks are even, round, few, and reach the largest value") {
  for (double most = 1e-4; most < 1e9; most *= 1.37) {
    CAPTURE(most);
    const std::vector<double> ticks = LinearTicks(most);
    CHECK(ticks.front() == 0);
    CHECK(ticks.back() >= most);
    CHECK(ticks[ticks.size() - 2] < most);
    CHECK(ticks.size() >= 5);
    CHECK(ticks.size() <= 9);
    CHECK(IsRound(ticks[1]));
    for (std::size_t i = 1; i < ticks.size(); ++i)
      CHECK(ticks[i] == doctest::Approx(static_cast<double>(i) * ticks[1]));
  }
  CHECK(LinearTicks(277.9) == std::vector<double>{0, 50, 100, 150, 200, 250, 300});
}

TEST_CASE("Logarithmic ticks are round, few, and lie around all values") {
  for (double low = 1e-3; low < 1e6; low *= 2.3) {
    for (double high = low; high < 1e12; high *= 3.1) {
      CAPTURE(low);
      CAPTURE(high);
      const std::vector<double> ticks = LogarithmicTicks(low, high);
      CHECK(ticks.front() <= low);
      CHECK(ticks.back() >= high);
      CHECK(ticks.size() >= 2);
      CHECK(ticks.size() <= 9);
      for (const double tick : ticks) CHECK(IsRound(tick));
    }
  }
  CHECK(LogarithmicTicks(64.62, 277.9) == std::vector<double>{50, 100, 200, 500});
  CHECK(LogarithmicTicks(3.1, 40'000) == std::vector<double>{1, 10, 100, 1000, 10'000, 100'000});
}

TEST_CASE("Sizes are labelled at powers of two, evenly, and at the ends where there is none between them") {
  CHECK(SizeTicks(8, 64, 7) == std::vector<double>{8, 16, 32, 64});
  CHECK(SizeTicks(4, 64 << 20, 7).size() <= 7);
  CHECK(SizeTicks(5, 100, 2) == std::vector<double>{8, 32});
  CHECK(SizeTicks(100, 120, 7) == std::vector<double>{100, 120});
  CHECK(SizeTicks(12, 12, 7) == std::vector<double>{12});
}

TEST_CASE("Tick labels are short and exact") {
  CHECK(TickLabel(0) == "0");
  CHECK(TickLabel(0.05) == "0.05");
  CHECK(TickLabel(1'000'000) == "1000000");
}

// Rows of these sizes, whose times range from 3 us to `slowest_us`.
std::vector<PerfRow> Rows(std::uint64_t from, std::uint64_t to, double slowest_us) {
  std::vector<PerfRow> rows;
  for (std::uint64_t bytes = from; bytes <= to; bytes *= 2) {
    PerfRow row;
    row.of.count = bytes / 4;
    row.algorithm = "ring";
    row.ranks = 2;
    row.median_us = bytes == to ? slowest_us : 3;
    rows.push_back(row);
  }
  return rows;
}

TEST_CASE("Every label of a chart is within it") {
  constexpr double kCharacterPx = 6.6;  // a wide character of a font of 11 px
  const std::regex svg(R"(<svg width="([0-9.]+)\")"),
      label(R"re(<text x="([0-9.]+)" y="[0-9.]+" text-anchor="(\w+)">([^<]*)<)re");
  for (const double slowest_us : {4.0, 277.9, 5e4, 9e7}) {
    const std::string page = ToHtml(Rows(8, std::uint64_t{256} << 20, slowest_us),
                                    {.name = "a", .cpu = "some", .kernel = "Linux", .cores = 2});
    std::smatch width;
    REQUIRE(std::regex_search(page, width, svg));
    int labels = 0;
    for (std::sregex_iterator at(page.begin(), page.end(), label), end; at != end; ++at, ++labels) {
      const double x = std::stod((*at)[1]), length = kCharacterPx * static_cast<double>((*at)[3].length());
      CAPTURE((*at)[3].str());
      CHECK(x - ((*at)[2] == "end" ? length : length / 2) >= 0);
      CHECK(x + ((*at)[2] == "end" ? 0 : length / 2) <= std::stod(width[1]));
    }
    CHECK(labels > 20);
  }
}

}  // namespace chart_axis_test
}  // namespace rondo
