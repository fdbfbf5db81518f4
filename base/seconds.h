// Durations as users write them.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace rondo {

// Parses "30", "0.5". kInvalidArgument, "expected seconds, ...": the text is not a number, or the number is not above
// 0, or it is above a million.
Result<Duration> ParseSeconds(std::string_view text);

}  // namespace rondo
