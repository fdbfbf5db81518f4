// The text of default_profile.json, put into the library when it is built.
#pragma once

#include <string_view>

namespace rondo {

extern const std::string_view kDefaultProfileJson;

}  // namespace rondo
