// Lengths of time as users write them.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace rondo {

// "30", "0.5": kInvalidArgument, "wants seconds, ...".
Result<Duration> ParseSeconds(std::string_view text);

}  // namespace rondo
