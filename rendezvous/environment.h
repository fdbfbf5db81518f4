// Access to environment variables through a function that the caller supplies. The library itself never reads
// environment variables.
#pragma once

#include <fmt/core.h>

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo {

// Gives the value of a variable, or nullopt.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// Gives the value of a variable, or nullopt if the variable is not set or empty.
inline std::optional<std::string> Lookup(const Environment& environment, const std::string& name) {
  auto value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

inline bool IsSet(const Environment& environment, const std::string& name) {
  return Lookup(environment, name).has_value();
}

// Parses a whole number from `low` to `high`. The error uses `what` to name the source of the text: "variable RANK",
// "rank in 'tcp://...'".
inline Result<int> ParseNumber(std::string_view what, std::string_view text, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < low || number > high) {
    return Fail(ErrorCode::kInvalidArgument, "{} is '{}'; expected a number from {} to {}", what, text, low, high);
  }
  return number;
}

}  // namespace rondo
