// What the pages of `rondo perf --html` have in common: one look, light and dark, a heading, and the line that says
// which machine was measured. A page needs nothing else: no script, no network.
#pragma once

#include <string>
#include <string_view>

#include "tools/perf/report.h"

namespace rondo {

// Text as it may stand in a page, also in an attribute.
std::string Escaped(std::string_view text);

// `title` and `note` are text; `style` is CSS behind what all pages share, and `body` is HTML.
std::string HtmlPage(std::string_view title, std::string_view note, const HostFacts& host, std::string_view style,
                     std::string_view body);

}  // namespace rondo
