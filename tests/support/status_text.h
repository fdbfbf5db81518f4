// The text of a Status, so that failed comparisons print what they compared.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo {

inline std::string TextOf(const Status& status) { return status ? "ok" : status.error().ToString(); }

}  // namespace rondo
