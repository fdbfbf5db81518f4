// Sizes in bytes with units, for users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo {

// Parses "64", "4K", "1.5M", "2GiB". Units are powers of 1024, and a fraction must result in whole bytes.
// kInvalidArgument: the message says what was expected.
Result<std::uint64_t> ParseSize(std::string_view text);

// Formats a size with three significant digits, or four if the number is 1000 or more: "64 B", "4 KiB", "1.5 MiB".
std::string FormatSize(std::uint64_t bytes);

}  // namespace rondo
