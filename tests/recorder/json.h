// JSON as tests compare it: by its text, so that a failed check shows what was there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rondo::test {

using Json = nlohmann::json;

// A text as it is, anything else as JSON has it.
inline std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace rondo::test
