// The version of Rondo, as `rondo --version`, rondo_version() and measurements report it.
#pragma once

#include <string_view>

namespace rondo {

inline constexpr std::string_view kRondoVersion = "0.1.0";

}  // namespace rondo
