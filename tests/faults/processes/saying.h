// What a rank tells the script that started it: a JSON object a line, each with the monotonic clock, which all
// processes of a host share, in nanoseconds ("ns") and what happened ("event").
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace rondo::processes {

// Any thread.
void Say(std::string_view event, nlohmann::json fields = nlohmann::json::object());

// The fields by which errors of several ranks are held against each other.
nlohmann::json FieldsOf(const Error& error);

}  // namespace rondo::processes
