#include "base/seconds.h"

#include <charconv>
#include <chrono>
#include <system_error>

namespace rondo {

Result<Duration> ParseSeconds(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // A positive value below one nanosecond would be rounded to zero, so it is refused.
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 1e-9) || seconds > 1e6) {
    return Fail(ErrorCode::kInvalidArgument, "expected seconds, more than 0 and at most a million, got '{}'", text);
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace rondo
