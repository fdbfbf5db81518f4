// Where a process has its job's token from: what its caller gave, else the variable RONDO_TOKEN.
#pragma once

#include <memory>
#include <string>

#include "base/access.h"
#include "base/result.h"
#include "rendezvous/environment.h"

namespace rondo {

inline constexpr const char* kTokenVariable = "RONDO_TOKEN";

// `given` if it is not empty, else the variable's value, else "": no token. A variable that is set and empty is an
// error, not "no token": whoever sets it means to be protected. kInvalidArgument names what is wrong with the shape,
// and where it came from, never the value. `environment` may be empty.
Result<std::string> TokenText(const std::string& given, const Environment& environment);

// Of a text that TokenText gave; null for "".
Result<std::shared_ptr<const JobToken>> MakeJobToken(const std::string& text);

}  // namespace rondo
