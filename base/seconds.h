// Durations as users write them.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace rondo {

// Parses "30", "0.5". kInvalidArgument, "wants seconds, ...": not a number, or not more than 0 and at most a million.
Result<Duration> ParseSeconds(std::string_view text);

}  // namespace rondo
