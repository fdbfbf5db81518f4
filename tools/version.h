// The version that `rondo --version` prints and that measurements carry.
#pragma once

#include <string_view>

namespace rondo {

inline constexpr std::string_view kRondoVersion = "0.1.0";

}  // namespace rondo
