// What the variables of a launcher leave open about this process. Handed in, like the variables themselves.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace rondo {

struct SystemFacts {
  std::function<bool(int fd)> is_socket;                            // open, and a socket
  std::function<Status(const std::string& library)> can_load_pmix;  // kUnsupported says why not; "" is the usual names
};

// Asks the system.
SystemFacts ThisSystem();

}  // namespace rondo
