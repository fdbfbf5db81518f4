// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo {

// "64", "4K", "1.5M", "2GiB": powers of 1024; a fraction must come out as whole bytes. kInvalidArgument says what is
// wanted.
Result<std::uint64_t> ParseSize(std::string_view text);

// "64 B", "4 KiB", "1.5 MiB": three significant digits.
std::string FormatSize(std::uint64_t bytes);

}  // namespace rondo
