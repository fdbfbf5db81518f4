#include "tools/perf/matrix_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tools/common/sizes.h"
#include "tools/perf/html_page.h"

namespace rondo {
namespace {

// The background of a cell is a mix of --cold and --hot. --v, the cell's share of the best value, determines the mix.
// Text is readable on all shades, in the dark style, too.
constexpr const char* kMatrixStyle = R"(
:root { --cold: #f3f6fa; --hot: #8fbfe8; --bad-soft: #fbd9d7; --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --cold: #1b2026; --hot: #245f94; --bad-soft: #5a2422; --good: #56d364; } }
.verdict { border-left: .3em solid var(--good); padding: .2em .9em; margin: 1em 0; }
.verdict.bad { border-color: var(--bad); }
.verdict ul { margin: .3em 0; padding-left: 1.2em; }
.maps { display: flex; flex-wrap: wrap; gap: 0 3em; }
.maps section { max-width: 100%; }
.maps p { max-width: 36em; }
.wide { overflow-x: auto; }
th { font-weight: 500; }
.heat { border-collapse: separate; border-spacing: 2px; }
.heat td { min-width: 4.4em; padding: .45em .5em; text-align: center; border-radius: 3px;
  background: color-mix(in oklab, var(--hot) calc(var(--v) * 100%), var(--cold)); }
.heat td.self { background: none; color: var(--faint); }
.heat td.slow { outline: 2px solid var(--bad); outline-offset: -2px; }
.heat td.tooslow { background: var(--bad-soft); outline: 2px solid var(--bad); outline-offset: -2px; color: var(--bad);
  font-weight: 600; }
.heat th { padding: .2em .6em; text-align: center; color: var(--faint); }
.heat th[scope=row] { text-align: left; white-space: nowrap; color: var(--text); }
.key { display: flex; align-items: center; gap: .6em; margin: .4em 0; }
.key i { width: 9em; height: .7em; border-radius: 3px; background: linear-gradient(90deg, var(--cold), var(--hot));
  border: 1px solid var(--rule); }
.list td, .list th { padding: .3em .8em .3em 0; text-align: right; border-bottom: 1px solid var(--rule);
  vertical-align: top; white-space: nowrap; }
.list th { color: var(--faint); }
.list td.name, .list th.name { text-align: left; }
.list td.words, .list th.words { text-align: left; white-space: normal; min-width: 16em; }
.list tr.bad td { color: var(--bad); }
)";

class Page {
 public:
  explicit Page(const Matrix& matrix) : matrix_(matrix), directions_(DirectionsOf(matrix)) {}

  std::string Title() const {
    std::set<std::string> transports;
    for (const PairPaths& paths : matrix_.paths) transports.insert(paths.transport);
    return fmt::format("Every pair of {} ranks over {}", matrix_.ranks.size(), fmt::join(transports, "+"));
  }

  std::string Verdict() const {
    std::string list;
    std::uint64_t wrong = 0;
    for (const Direction& direction : directions_) {
      wrong += direction.wrong;
      if (!direction.slow && !direction.too_slow) continue;
      list += fmt::format("<li>{} to {}{}: <b>{}</b>{}</li>\n", Escaped(matrix_.NameOf(direction.from)),
                          Escaped(matrix_.NameOf(direction.to)),
                          has_rails() ? fmt::format(" on rail {}", direction.pair->rail) : "", Rate(direction.GBps),
                          direction.too_slow
                              ? fmt::format(", less than the {:g} Gbit/s asked for", *matrix_.options.min_gbps)
                              : fmt::format(", less than {:.0f}% of the median", 100 * kUsualShare));
    }
    const std::string bytes = !matrix_.options.pair.check ? "Bytes were not checked."
                              : wrong == 0                ? "Every byte checked was right."
                                                          : fmt::format("<b>{} bytes were wrong.</b>", wrong);
    return fmt::format("<div class=\"verdict{}\">{} {}{}</div>\n", list.empty() && wrong == 0 ? "" : " bad",
                       list.empty() ? "No direction is slow." : "Slow:", list.empty() ? "" : "<ul>" + list + "</ul>",
                       bytes);
  }

  // `value`: the number to show for a direction. `share`: the shade of the cell, from 0 to 1 (best). `marks`: whether
  // slow cells are marked.
  std::string HeatMap(const std::string& title, const std::string& legend, const std::string& from_label,
                      const std::string& to_label, const std::function<double(const Direction&)>& value,
                      const std::function<double(const Direction&)>& share, bool marks) const {
    std::string html = fmt::format("<section><h2>{}</h2>\n<p class=\"faint\">{}</p>\n", title, legend);
    for (std::uint32_t rail = 0; rail < matrix_.options.rails; ++rail) {
      html += fmt::format("<div class=\"wide\"><table class=\"heat\"><tr><th>{}</th>",
                          has_rails() ? fmt::format("rail {}", rail) : "");
      for (std::size_t to = 0; to < matrix_.ranks.size(); ++to)
        html += fmt::format("<th scope=\"col\" title=\"{}\">to {}</th>", Escaped(matrix_.ranks[to].Name()), to);
      html += "</tr>\n";
      const auto of_rail = OfRail(directions_, rail);
      auto next = of_rail.begin();
      for (std::size_t from = 0; from < matrix_.ranks.size(); ++from) {
        html += fmt::format("<tr><th scope=\"row\">{} <span class=\"faint\">{}</span></th>", from,
                            Escaped(matrix_.ranks[from].Name()));
        for (std::size_t to = 0; to < matrix_.ranks.size(); ++to)
          html += from == to ? "<td class=\"self\">&middot;</td>" : Cell(*next++, value, share, marks);
        html += "</tr>\n";
      }
      html += "</table></div>\n";
    }
    return html + fmt::format("<div class=\"key faint\">{}<i></i>{}</div></section>\n", from_label, to_label);
  }

  std::string Bandwidth() const {
    const double most = Most([](const Direction& direction) { return direction.GBps; });
    return HeatMap(
        "Bandwidth one way",
        fmt::format(
            "{}, from the row's rank to the column's; messages of {}, {} at once{}. ! is less than {:.0f}% of the "
            "median{}.",
            Unit(), FormatSize(matrix_.options.pair.bandwidth_bytes), matrix_.options.pair.in_flight,
            matrix_.options.checksums ? ", with checksums" : "", 100 * kUsualShare,
            matrix_.options.min_gbps ? fmt::format(", &#x2717; less than {:g} Gbit/s", *matrix_.options.min_gbps) : ""),
        "0", Rate(most), [this](const Direction& direction) { return Factor() * direction.GBps; },
        [most](const Direction& direction) { return direction.GBps / most; }, true);
  }

  std::string BothWays() const {
    const double most = Most([](const Direction& direction) { return direction.pair->both_GBps; });
    return HeatMap(
        "Bandwidth both ways at once", fmt::format("{}, both directions added up.", Unit()), "0", Rate(most),
        [this](const Direction& direction) { return Factor() * direction.pair->both_GBps; },
        [most](const Direction& direction) { return direction.pair->both_GBps / most; }, false);
  }

  std::string Latency() const {
    double least = 1e300, most = 0;
    for (const Direction& direction : directions_) {
      least = std::min(least, direction.pair->latency_median_us);
      most = std::max(most, direction.pair->latency_median_us);
    }
    return HeatMap(
        "Latency one way",
        fmt::format("Microseconds: half of {} there and back, median.", FormatSize(matrix_.options.pair.latency_bytes)),
        FourDigits(most) + " us", FourDigits(least) + " us",
        [](const Direction& direction) { return direction.pair->latency_median_us; },
        // The scale is logarithmic, because a path through a busy switch takes many times as long as a path within a
        // host.
        [least, most](const Direction& direction) {
          const double times = most / std::max(least, 1e-9);
          return times > 1 ? std::log(most / std::max(direction.pair->latency_median_us, 1e-9)) / std::log(times) : 1;
        },
        false);
  }

  std::string Paths() const {
    const auto any = [&](auto has) { return std::any_of(directions_.begin(), directions_.end(), has); };
    const bool has_line = any([](const Direction& direction) { return direction.paths->line_gbps() > 0; });
    const bool has_port = any([](const Direction& direction) { return !direction.link().device.empty(); });
    const bool has_gid = any([](const Direction& direction) { return !direction.link().gid.empty(); });
    std::string html = fmt::format(
        "<h2>Paths</h2>\n<p class=\"faint\">{}</p>\n<div class=\"wide\"><table class=\"list\"><tr><th "
        "class=\"name\">from<th class=\"name\">to{}<th>{}{}"
        "<th>latency min<th>median<th>p99 (us)<th>wrong{}{}<th class=\"words\">path</tr>\n",
        has_port ? "By the sender's account: port and MTU are those of its end." : "By the sender's account.",
        has_rails() ? "<th>rail" : "", Unit(), has_line ? "<th>line (Gbit/s)<th>of line" : "",
        has_port ? "<th class=\"name\">port<th>MTU" : "", has_gid ? "<th class=\"name\">GID" : "");
    for (const Direction& direction : directions_) {
      const PairRow& pair = *direction.pair;
      std::string line;
      if (has_line) {
        const std::optional<double> percent = direction.PercentOfLine();
        line = percent ? fmt::format("<td>{:g}<td>{:.3g}%", direction.paths->line_gbps(), *percent) : "<td>?<td>?";
      }
      const LinkEnd& link = direction.link();
      std::string port;
      if (has_port)
        port = fmt::format("<td class=\"name\">{}<td>{}", Escaped(PortName(link)),
                           link.mtu_bytes > 0 ? fmt::format("{}", link.mtu_bytes) : "");
      if (has_gid) port += fmt::format("<td class=\"name\">{}", Escaped(GidText(link)));
      html += fmt::format(
          "<tr{}><td class=\"name\">{}<td class=\"name\">{}{}<td>{}{}<td>{}<td>{}<td>{}<td>{}{}<td "
          "class=\"words\">{}: {}</tr>\n",
          direction.slow || direction.too_slow || direction.wrong != 0 ? " class=\"bad\"" : "", Named(direction.from),
          Named(direction.to), has_rails() ? fmt::format("<td>{}", pair.rail) : "",
          FourDigits(Factor() * direction.GBps), line, FourDigits(pair.latency_min_us),
          FourDigits(pair.latency_median_us), FourDigits(pair.latency_p99_us),
          matrix_.options.pair.check ? fmt::format("{}", direction.wrong) : "not checked", port,
          Escaped(direction.paths->transport), Escaped(direction.PathWords()));
    }
    return html + "</table></div>\n";
  }

 private:
  bool has_rails() const { return matrix_.options.rails > 1; }
  double Factor() const { return matrix_.options.gbits ? 8 : 1; }
  const char* Unit() const { return matrix_.options.gbits ? "Gbit/s" : "GB/s"; }
  std::string Rate(double GBps) const { return FourDigits(Factor() * GBps) + " " + Unit(); }

  // The name of a rank in a column: "1 10.0.0.2".
  std::string Named(Rank rank) const {
    const std::string& address = matrix_.ranks[static_cast<std::size_t>(rank)].address;
    return address.empty() ? fmt::format("{}", rank)
                           : fmt::format("{} <span class=\"faint\">{}</span>", rank, Escaped(address));
  }

  template <typename Value>
  double Most(Value value) const {
    double most = 1e-9;
    for (const Direction& direction : directions_) most = std::max(most, value(direction));
    return most;
  }

  std::string Cell(const Direction& direction, const std::function<double(const Direction&)>& value,
                   const std::function<double(const Direction&)>& share, bool marks) const {
    const bool too_slow = marks && direction.too_slow;
    const bool slow = marks && direction.slow;
    return fmt::format("<td{} style=\"--v:{:.3f}\" title=\"{} to {}: {}\">{}{}</td>",
                       too_slow ? " class=\"tooslow\""
                       : slow   ? " class=\"slow\""
                                : "",
                       std::clamp(share(direction), 0.0, 1.0), Escaped(matrix_.NameOf(direction.from)),
                       Escaped(matrix_.NameOf(direction.to)), Escaped(direction.path()), FourDigits(value(direction)),
                       too_slow ? " &#x2717;"
                       : slow   ? " !"
                                : "");
  }

  const Matrix& matrix_;
  const std::vector<Direction> directions_;
};

}  // namespace

std::string MatrixToHtml(const Matrix& matrix, const HostFacts& host) {
  const Page page(matrix);
  return HtmlPage(page.Title(), "Pairs are measured one after the other.", host, kMatrixStyle,
                  page.Verdict() + "<div class=\"maps\">\n" + page.Bandwidth() + page.BothWays() + page.Latency() +
                      "</div>\n" + page.Paths());
}

}  // namespace rondo
