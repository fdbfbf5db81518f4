// What a rank is to do, as text: words with arguments, "connect sums:20 hold:before barrier recover rebuild sums:5
// close".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::processes {

struct Step {
  std::string name;
  std::vector<std::string> arguments;

  // Of argument `at`; `otherwise` where there is none. A number that is none ends the process.
  std::int64_t Number(std::size_t at, std::int64_t otherwise) const;
  std::string Text(std::size_t at) const;  // "" where there is none
};

std::vector<Step> ParseScript(const std::string& text);

}  // namespace rondo::processes
