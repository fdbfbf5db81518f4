// Lists as people write them on a command line: "a,b".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// "a,b" as "a" and "b"; N commas part N + 1 items, which may be empty.
std::vector<std::string> SplitAtCommas(std::string_view list);

}  // namespace rondo
