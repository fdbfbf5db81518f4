// The common frame of the pages of `rondo perf --html`: style sheet (light and dark), heading, and a line about the
// measured machine. A page is self-contained; it needs no script and no network.
#pragma once

#include <string>
#include <string_view>

#include "tools/perf/report.h"

namespace rondo {

// The text with HTML's special characters escaped, for use in elements and attributes.
std::string Escaped(std::string_view text);

// `title` and `note` are plain text. `style` is CSS that is added after the common style sheet. `body` is HTML.
std::string HtmlPage(std::string_view title, std::string_view note, const HostFacts& host, std::string_view style,
                     std::string_view body);

}  // namespace rondo
