// Comma-separated lists on a command line: "a,b".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// Splits "a,b" into "a" and "b". N commas give N + 1 items, which may be empty.
std::vector<std::string> SplitAtCommas(std::string_view list);

}  // namespace rondo
