// Finds the job's token: the text that the caller gives, otherwise the variable RONDO_TOKEN.
#pragma once

#include <memory>
#include <string>

#include "base/access.h"
#include "base/result.h"
#include "rendezvous/environment.h"

namespace rondo {

inline constexpr const char* kTokenVariable = "RONDO_TOKEN";

// Gives `given` if it is not empty, otherwise the variable's value, otherwise "": no token. An empty variable is an
// error and does not mean "no token", because a user who sets the variable wants protection. kInvalidArgument says
// which source has a malformed token and why, but never shows the token. `environment` may be empty.
Result<std::string> TokenText(const std::string& given, const Environment& environment);

// Makes the token from the text that TokenText gave; null for "".
Result<std::shared_ptr<const JobToken>> MakeJobToken(const std::string& text);

}  // namespace rondo
