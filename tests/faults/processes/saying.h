// A rank's reports to the script that started it. Each report is one JSON object on one line. It contains the event's
// name ("event") and the time in nanoseconds ("ns"), by the monotonic clock that all processes of a host share.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace rondo::processes {

// Writes a report. Any thread may call it.
void Say(std::string_view event, nlohmann::json fields = nlohmann::json::object());

// The fields of an error by which the errors of several ranks are compared.
nlohmann::json FieldsOf(const Error& error);

}  // namespace rondo::processes
