#include "tools/perf/html.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tools/common/sizes.h"
#include "tools/perf/chart_axis.h"
#include "tools/perf/html_page.h"

namespace rondo {
namespace {

// The margins have room for the longest labels: half of a size label to the right of the axis, and a time label to the
// left of it.
constexpr double kWidth = 580, kHeight = 300, kLeft = 74, kRight = 30, kTop = 12, kBottom = 34;
constexpr int kMaxSizeLabels = 7;
constexpr std::array kColors{"#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#00798c", "#8c510a", "#555555"};

constexpr const char* kReportStyle = R"(
figure { display: inline-block; margin: 0 1em 1em 0; }
figcaption { font-size: .87em; color: var(--faint); }
svg text { font: 11px system-ui, sans-serif; fill: var(--faint); }
svg line { stroke: var(--rule); }
th, td { padding: .15em .6em; text-align: right; border-bottom: 1px solid var(--rule); }
th { position: sticky; top: 0; background: var(--page); }
.wrong { color: var(--bad); font-weight: bold; }
.key { display: inline-block; margin-right: 1.2em; font-size: .87em; }
.key i { display: inline-block; width: 1.4em; height: .25em; margin-right: .4em; vertical-align: middle; }
)";

struct Point {
  double x = 0;
  double y = 0;
};
struct Line {
  std::string name;
  std::string color;
  std::vector<Point> points;  // by rising x
};

// Maps values to pixels, linearly or logarithmically.
class Axis {
 public:
  Axis(double low, double high, double low_px, double high_px, bool logarithmic)
      : low_(logarithmic ? std::log2(low) : low),
        high_(logarithmic ? std::log2(high) : high),
        low_px_(low_px),
        high_px_(high_px),
        logarithmic_(logarithmic) {
    if (high_ <= low_) high_ = low_ + 1;
  }
  double Pixel(double value) const {
    const double at = ((logarithmic_ ? std::log2(value) : value) - low_) / (high_ - low_);
    return low_px_ + at * (high_px_ - low_px_);
  }

 private:
  double low_, high_, low_px_, high_px_;
  bool logarithmic_;
};

// Draws one chart. Its vertical axis starts at 0 or is logarithmic.
std::string Chart(const std::vector<Line>& lines, const std::string& caption, bool logarithmic) {
  double min_x = std::numeric_limits<double>::max(), max_x = 0, min_y = min_x, max_y = 0;
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      min_x = std::min(min_x, point.x);
      max_x = std::max(max_x, point.x);
      min_y = std::min(min_y, point.y);
      max_y = std::max(max_y, point.y);
    }
  }
  if (max_x == 0) return "";
  const std::vector<double> ticks = logarithmic ? LogarithmicTicks(min_y, max_y) : LinearTicks(max_y);
  const Axis across(min_x, max_x, kLeft, kWidth - kRight, true);
  const Axis up(ticks.front(), ticks.back(), kHeight - kBottom, kTop, logarithmic);
  std::string svg = fmt::format(
      "<figure><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\">\n", kWidth,
      kHeight, Escaped(caption));

  for (const double value : ticks) {
    const double y = up.Pixel(value);
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft, kWidth - kRight, y, y);
    svg +=
        fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y + 4, TickLabel(value));
  }
  for (const double size : SizeTicks(min_x, max_x, kMaxSizeLabels)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", across.Pixel(size),
                       kHeight - kBottom + 18, FormatSize(static_cast<std::uint64_t>(size)));
  }
  for (const Line& line : lines) {
    std::string path;
    for (const Point& point : line.points) {
      path += fmt::format("{:.1f},{:.1f} ", across.Pixel(point.x), up.Pixel(point.y));
    }
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", line.color, path);
    for (const Point& point : line.points) {
      svg +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{}: {:.4g}</title></circle>\n",
                      across.Pixel(point.x), up.Pixel(point.y), line.color,
                      Escaped(line.name + ", " + FormatSize(static_cast<std::uint64_t>(point.x))), point.y);
    }
  }
  return svg + fmt::format("</svg><figcaption>{}</figcaption></figure>\n", Escaped(caption));
}

using Rows = std::vector<const PerfRow*>;

// The lines of one pair of charts: one for each algorithm and placement.
std::vector<Line> LinesOf(const Rows& rows, double (*value)(const PerfRow&)) {
  std::map<std::string, Line> lines;
  for (const PerfRow* row : rows) {
    if (row->of.bytes() == 0 || value(*row) <= 0) continue;
    const std::string name = row->AlgorithmText() + (row->in_place ? ", in place" : ", out of place");
    Line& line = lines[name];
    line.name = name;
    line.points.push_back({static_cast<double>(row->of.bytes()), value(*row)});
  }
  std::vector<Line> list;
  for (auto& [name, line] : lines) {
    line.color = kColors[list.size() % kColors.size()];
    list.push_back(std::move(line));
  }
  return list;
}

std::string Group(const std::string& title, const Rows& rows) {
  const std::vector<Line> bandwidth = LinesOf(rows, [](const PerfRow& row) { return row.BusGBps(); });
  const std::vector<Line> time = LinesOf(rows, [](const PerfRow& row) { return row.median_us; });
  if (time.empty()) return "";
  std::string html = fmt::format("<h2>{}</h2>\n<p>", Escaped(title));
  for (const Line& line : time) {
    html += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", line.color, Escaped(line.name));
  }
  return html + "</p>\n" + Chart(bandwidth, "Bus bandwidth in GB/s over the size", false) +
         Chart(time, "Median time in microseconds over the size", true);
}

std::string TableOf(const std::vector<PerfRow>& rows) {
  std::string html =
      "<h2>All rows</h2>\n<table><tr><th>collective<th>algorithm<th>transport<th>ranks<th>size "
      "(B)<th>type<th>op<th>root"
      "<th>place<th>iterations<th>min (us)<th>median (us)<th>p99 (us)<th>max (us)<th>algbw (GB/s)<th>busbw (GB/s)"
      "<th>wrong</tr>\n";
  for (const PerfRow& row : rows) {
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.2f}<td>{:.2f}<td>{:.2f}<td>{:.2f}"
        "<td>{:.3f}<td>{:.3f}<td{}>{}</tr>\n",
        row.of.Subject(), row.AlgorithmText(), row.transport, row.ranks, row.of.bytes(), row.of.TypeName(),
        row.of.OpName(), row.of.root, row.in_place ? "in" : "out", row.iterations, row.min_us, row.median_us,
        row.p99_us, row.max_us, row.AlgorithmGBps(), row.BusGBps(),
        row.wrong.value_or(0) != 0 ? " class=\"wrong\"" : "",
        row.wrong ? fmt::format("{}", *row.wrong) : "not checked");
  }
  return html + "</table>\n";
}

}  // namespace

std::string ToHtml(const std::vector<PerfRow>& rows, const HostFacts& host) {
  std::vector<std::pair<std::string, Rows>> groups;  // the groups, in the order of the first row of each
  for (const PerfRow& row : rows) {
    const std::string title = fmt::format("{} {}{}{}{}", row.of.Subject(), row.of.TypeName(),
                                          Reduces(row.of.collective) ? fmt::format(" {}", row.of.OpName()) : "",
                                          row.of.has_root() ? fmt::format(", root {}", row.of.root) : "",
                                          row.of.fp32_accumulate ? ", accumulated in float32" : "");
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
    group->second.push_back(&row);
  }
  const std::string heading =
      rows.empty() ? "rondo perf"
                   : fmt::format("rondo perf: {} ranks over {}", rows.front().ranks, rows.front().transport);
  std::string body;
  for (const auto& [title, members] : groups) body += Group(title, members);
  return HtmlPage(heading, "Times are those of the slowest rank in each iteration.", host, kReportStyle,
                  body + TableOf(rows));
}

}  // namespace rondo
