#include "tools/common/comma_list.h"

#include <algorithm>
#include <cstddef>

namespace rondo {

std::vector<std::string> SplitAtCommas(std::string_view list) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    items.emplace_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return items;
}

}  // namespace rondo
