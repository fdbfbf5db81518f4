#include "tests/faults/processes/script.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace rondo::processes {

std::int64_t Step::Number(std::size_t at, std::int64_t otherwise) const {
  if (at >= arguments.size()) return otherwise;
  const std::string& text = arguments[at];
  std::int64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ptr != text.data() + text.size()) {
    std::fprintf(stderr, "rank: '%s' in step '%s' is no number\n", text.c_str(), name.c_str());
    std::exit(2);
  }
  return number;
}

std::string Step::Text(std::size_t at) const { return at < arguments.size() ? arguments[at] : std::string(); }

std::vector<Step> ParseScript(const std::string& text) {
  std::vector<Step> steps;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    Step step;
    std::istringstream parts(word);
    std::getline(parts, step.name, ':');
    for (std::string part; std::getline(parts, part, ':');) step.arguments.push_back(part);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace rondo::processes
