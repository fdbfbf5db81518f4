#include "tools/perf/matrix_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "tools/common/sizes.h"

namespace rondo {
namespace {

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A table with one number for each direction. The character that `mark` returns for the direction follows the number.
template <typename Number, typename Mark>
std::string Table(const Matrix& matrix, std::span<const Direction> directions, Number number, Mark mark) {
  std::size_t width = 4;
  for (const MatrixRank& rank : matrix.ranks) width = std::max(width, rank.Name().size());
  std::string text = fmt::format("  {:>4} {:<{}}", "from", "", width);
  for (std::size_t to = 0; to < matrix.ranks.size(); ++to) text += fmt::format(" {:>8} ", fmt::format("to {}", to));
  text += "\n";
  std::size_t next = 0;
  for (std::size_t from = 0; from < matrix.ranks.size(); ++from) {
    text += fmt::format("  {:>4} {:<{}}", from, matrix.ranks[from].Name(), width);
    for (std::size_t to = 0; to < matrix.ranks.size(); ++to) {
      if (from == to) {
        text += fmt::format(" {:>8} ", "-");
      } else {
        const Direction& direction = directions[next++];
        text += fmt::format(" {:>8}{}", FourDigits(number(direction)), mark(direction));
      }
    }
    text += "\n";
  }
  return text;
}

// The text that names the rail; empty if there is only one rail.
std::string OnRail(const Matrix& matrix, const Direction& direction) {
  return matrix.options.rails > 1 ? fmt::format(" on rail {}", direction.pair->rail) : "";
}

std::string PercentText(const Direction& direction) {
  const std::optional<double> percent = direction.PercentOfLine();
  return percent ? fmt::format("{:.3g}%", *percent) : "";
}

// Returns for example "mlx5_0:1 [3] RoCE v2 10.0.0.1 (eth0), MTU 4096" or "eth0 10.0.0.1, MTU 1500"; "" for a path
// through memory.
std::string EndText(const LinkEnd& link) {
  if (link.device.empty()) return "";
  return fmt::format("{} {}{}", PortName(link), link.gid.empty() ? link.address : GidText(link),
                     link.mtu_bytes > 0 ? fmt::format(", MTU {}", link.mtu_bytes) : "");
}

// One line per pair: the path as the lower rank sees it, the port at the other end, the line rate, and the share of
// that rate that each direction reached.
std::string PathLines(const Matrix& matrix, const std::vector<Direction>& directions) {
  std::string text;
  for (const Direction& up : directions) {
    if (up.from > up.to) continue;
    const double line_gbps = up.paths->line_gbps();
    std::string line;
    if (line_gbps > 0) {
      const auto down = std::find_if(directions.begin(), directions.end(), [&](const Direction& direction) {
        return direction.pair == up.pair && direction.from == up.to;
      });
      line = fmt::format("; line {:g} Gbit/s, {} there and {} back", line_gbps, PercentText(up), PercentText(*down));
    }
    const std::string there = EndText(up.peer_link());
    text += fmt::format("# Path {} to {}{}: {} over {}{}{}\n", up.from, up.to, OnRail(matrix, up), up.paths->transport,
                        up.PathWords(), there.empty() ? "" : "; at the other end " + there, line);
  }
  return text;
}

std::string SlowLines(const Matrix& matrix, const std::vector<Direction>& directions) {
  std::string text;
  const double factor = matrix.options.gbits ? 8 : 1;
  for (const Direction& direction : directions) {
    if (!direction.slow && !direction.too_slow) continue;
    text += fmt::format("# {}: {} to {}{}: {:.4g} {}\n", direction.too_slow ? "Too slow" : "Slow",
                        matrix.NameOf(direction.from), matrix.NameOf(direction.to), OnRail(matrix, direction),
                        factor * direction.GBps, matrix.options.gbits ? "Gbit/s" : "GB/s");
  }
  return text;
}

}  // namespace

std::string Matrix::NameOf(Rank rank) const {
  return fmt::format("rank {} ({})", rank, ranks[static_cast<std::size_t>(rank)].Name());
}

double PairPaths::line_gbps() const {
  if (low.line_gbps <= 0 || high.line_gbps <= 0) return std::max({low.line_gbps, high.line_gbps, 0.0});
  return std::min(low.line_gbps, high.line_gbps);
}

std::string Direction::PathWords() const {
  const std::string again = paths->transport + " ";
  return path().starts_with(again) ? path().substr(again.size()) : path();
}

void NameByPorts(Matrix& matrix) {
  for (std::size_t rank = 0; rank < matrix.ranks.size(); ++rank) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < matrix.pairs.size(); ++i) {
      const PairRow& pair = matrix.pairs[i];
      if (std::cmp_not_equal(pair.low, rank) && std::cmp_not_equal(pair.high, rank)) continue;
      const LinkEnd& link = std::cmp_equal(pair.low, rank) ? matrix.paths[i].low : matrix.paths[i].high;
      if (link.device.empty()) continue;
      const std::string name = link.address.empty() ? PortName(link) : link.address;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (!names.empty()) matrix.ranks[rank].address = fmt::format("{}", fmt::join(names, "+"));
  }
}

std::string FourDigits(double value) {
  return value >= 9999.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string PortName(const LinkEnd& link) {
  return link.port > 0 ? fmt::format("{}:{}", link.device, link.port) : link.device;
}

std::string GidText(const LinkEnd& link) {
  return link.gid.empty() ? "" : fmt::format("[{}] {}", link.gid_index, link.gid);
}

std::optional<double> Direction::PercentOfLine() const {
  const double line_gbps = paths->line_gbps();
  if (line_gbps <= 0) return std::nullopt;
  return 100 * GBps * 8 / line_gbps;
}

std::vector<Direction> DirectionsOf(const Matrix& matrix) {
  std::vector<Direction> directions;
  std::vector<double> bandwidths;
  for (std::size_t i = 0; i < matrix.pairs.size(); ++i) {
    const PairRow& pair = matrix.pairs[i];
    const PairPaths* const paths = &matrix.paths[i];
    directions.push_back({.from = pair.low,
                          .to = pair.high,
                          .GBps = pair.up_GBps,
                          .wrong = pair.wrong_up,
                          .pair = &pair,
                          .paths = paths});
    directions.push_back({.from = pair.high,
                          .to = pair.low,
                          .GBps = pair.down_GBps,
                          .wrong = pair.wrong_down,
                          .pair = &pair,
                          .paths = paths});
    bandwidths.insert(bandwidths.end(), {pair.up_GBps, pair.down_GBps});
  }
  const double usual = MedianOf(bandwidths);
  for (Direction& direction : directions) {
    direction.slow = direction.GBps < kUsualShare * usual;
    direction.too_slow = matrix.options.min_gbps && direction.GBps * 8 < *matrix.options.min_gbps;
  }
  const auto place = [](const Direction& one) { return std::tuple(one.pair->rail, one.from, one.to); };
  std::sort(directions.begin(), directions.end(),
            [&](const Direction& a, const Direction& b) { return place(a) < place(b); });
  return directions;
}

std::span<const Direction> OfRail(const std::vector<Direction>& directions, std::uint32_t rail) {
  const auto first =
      std::find_if(directions.begin(), directions.end(), [&](const Direction& one) { return one.pair->rail == rail; });
  const auto behind =
      std::find_if(first, directions.end(), [&](const Direction& one) { return one.pair->rail != rail; });
  return {first, behind};
}

bool IsGood(const Matrix& matrix) {
  const std::vector<Direction> directions = DirectionsOf(matrix);
  return std::none_of(directions.begin(), directions.end(),
                      [](const Direction& direction) { return direction.too_slow || direction.wrong != 0; });
}

std::string MatrixText(const Matrix& matrix) {
  const MatrixOptions& options = matrix.options;
  const std::vector<Direction> directions = DirectionsOf(matrix);
  const double factor = options.gbits ? 8 : 1;
  const char* const unit = options.gbits ? "Gbit/s" : "GB/s";
  const auto mark = [](const Direction& direction) { return direction.too_slow ? 'X' : direction.slow ? '!' : ' '; };
  const auto none = [](const Direction&) { return ' '; };

  std::string text = fmt::format(
      "# Bandwidth one way, {} messages, {} at once{} ({}; row to column; ! under {:.0f}% of the "
      "median{})\n",
      FormatSize(options.pair.bandwidth_bytes), options.pair.in_flight, options.checksums ? ", with checksums" : "",
      unit, 100 * kUsualShare, options.min_gbps ? fmt::format(", X under {:g} Gbit/s", *options.min_gbps) : "");
  // A table for each rail. With several rails, a line with the rail's number precedes each table.
  const auto tables = [&](auto number, auto marks) {
    std::string parts;
    for (std::uint32_t rail = 0; rail < options.rails; ++rail) {
      if (options.rails > 1) parts += fmt::format("# on rail {}\n", rail);
      parts += Table(matrix, OfRail(directions, rail), number, marks);
    }
    return parts;
  };
  text += tables([&](const Direction& direction) { return factor * direction.GBps; }, mark);
  text += fmt::format("# Bandwidth both ways at once, added up ({})\n", unit);
  text += tables([&](const Direction& direction) { return factor * direction.pair->both_GBps; }, none);
  text += fmt::format("# Latency one way, {} (us; half of there and back, median)\n",
                      FormatSize(options.pair.latency_bytes));
  text += tables([](const Direction& direction) { return direction.pair->latency_median_us; }, none);
  text += SlowLines(matrix, directions);
  std::uint64_t wrong = 0;
  for (const Direction& direction : directions) wrong += direction.wrong;
  text += !options.pair.check ? "# Wrong values     : not checked\n"
                              : fmt::format("# Wrong values     : {} {}\n", wrong, wrong == 0 ? "OK" : "WRONG");
  return text + PathLines(matrix, directions);
}

}  // namespace rondo
