// Facts about this process that a launcher's variables do not contain. The caller supplies them, like the variables.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace rondo {

struct SystemFacts {
  std::function<bool(int fd)> is_socket;  // whether the descriptor is an open socket
  // kUnsupported says why libpmix cannot be loaded. `library` "" means the usual names.
  std::function<Status(const std::string& library)> can_load_pmix;
};

// Gives functions that ask the system.
SystemFacts ThisSystem();

}  // namespace rondo
