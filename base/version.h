// The version of Rondo: what `rondo --version` and rondo_version() say, and what measurements carry.
#pragma once

#include <string_view>

namespace rondo {

inline constexpr std::string_view kRondoVersion = "0.1.0";

}  // namespace rondo
