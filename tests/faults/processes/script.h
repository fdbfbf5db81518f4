// A rank's script as text: steps with arguments, "connect sums:20 hold:before barrier recover rebuild sums:5 close".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::processes {

struct Step {
  std::string name;
  std::vector<std::string> arguments;

  // The argument at index `at` as a number, or `otherwise` if there is none. An argument that is not a number ends the
  // process.
  std::int64_t Number(std::size_t at, std::int64_t otherwise) const;
  std::string Text(std::size_t at) const;  // "" if there is none
};

std::vector<Step> ParseScript(const std::string& text);

}  // namespace rondo::processes
