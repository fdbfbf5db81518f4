#include "tools/perf/html_page.h"

#include <fmt/core.h>

#include "base/version.h"

namespace rondo {
namespace {

constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --faint: #656d76; --rule: #d8dee4; --bad: #c62828; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --text: #e2e6ea; --faint: #98a1ab; --rule: #343b43; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; padding: 0 1.2em;
  background: var(--page); color: var(--text); }
h1 { font-size: 1.5em; margin: 0 0 .2em; }
h2 { font-size: 1.1em; margin: 2.2em 0 .2em; }
p { margin: .2em 0 .8em; }
.faint { color: var(--faint); font-size: .87em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .87em; }
)";

}  // namespace

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string HtmlPage(std::string_view title, std::string_view note, const HostFacts& host, std::string_view style,
                     std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}{2}</style></head>\n<body><h1>{0}</h1>\n"
      "<p class=\"faint\">rondo {3} on {4} ({5}, {6} cores, {7}). {8}</p>\n{9}</body></html>\n",
      Escaped(title), kPageStyle, style, kRondoVersion, Escaped(host.name), Escaped(host.cpu), host.cores,
      Escaped(host.kernel), Escaped(note), body);
}

}  // namespace rondo
