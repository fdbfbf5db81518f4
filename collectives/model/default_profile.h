// The text of default_profile.json, embedded when the library is built.
#pragma once

#include <string_view>

namespace rondo {

extern const std::string_view kDefaultProfileJson;

}  // namespace rondo
