#include "tools/common/sizes.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace rondo {
namespace {

// The exponent of 1024 that a suffix means.
std::optional<int> ParseUnit(std::string_view suffix) {
  constexpr std::string_view kLetters = "KMGT";
  if (suffix.empty() || suffix == "B" || suffix == "b") return 0;
  const char letter = suffix.front() >= 'a' ? static_cast<char>(suffix.front() - 'a' + 'A') : suffix.front();
  const std::size_t unit = kLetters.find(letter);
  if (unit == std::string_view::npos) return std::nullopt;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "B" && rest != "b" && rest != "iB") return std::nullopt;
  return static_cast<int>(unit) + 1;
}

}  // namespace

Result<std::uint64_t> ParseSize(std::string_view text) {
  const auto refuse = [&] {
    return Fail(ErrorCode::kInvalidArgument, "expected bytes such as 64, 4K, 1.5M or 2G, got '{}'", text);
  };
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const std::optional<int> unit = ParseUnit(digits == std::string_view::npos ? "" : text.substr(digits));
  if (number.empty() || !unit) return refuse();

  std::uint64_t whole = 0;
  if (number.find('.') == std::string_view::npos) {
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), whole);
    if (error != std::errc() || end != number.data() + number.size()) return refuse();
    if (*unit > 0 && whole > UINT64_MAX >> (10 * *unit)) return refuse();
    return whole << (10 * *unit);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return refuse();
  value = std::ldexp(value, 10 * *unit);
  if (value != std::floor(value) || value >= 0x1p63) return refuse();
  return static_cast<std::uint64_t>(value);
}

std::string FormatSize(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}g} {}", value, value < 1000 ? 3 : 4, kUnits[unit]);
}

}  // namespace rondo
