// JSON that tests compare by its text, so that a failed check prints the value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rondo::test {

using Json = nlohmann::json;

// Returns the contents of a string, and the JSON text of any other value.
inline std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace rondo::test
