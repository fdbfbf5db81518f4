// A rank's script as text: steps with arguments, such as "connect sums:20 hold:before barrier recover rebuild sums:5".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::processes {

struct Step {
  std::string name;
  std::vector<std::string> arguments;

  // The argument at index `at` as a number, or `otherwise` if there is no such argument. If the argument is not a
  // number, the process ends.
  std::int64_t Number(std::size_t at, std::int64_t otherwise) const;
  std::string Text(std::size_t at) const;  // "" if there is no such argument
};

std::vector<Step> ParseScript(const std::string& text);

}  // namespace rondo::processes
