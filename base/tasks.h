// Processes and threads as a limit: the words for a call that got none. The kernel counts both as tasks.
#pragma once

#include <string>

namespace rondo {

// What a failed start of a thread or a process says, in words. Where a limit made it fail (EAGAIN) the words name the
// need, the limits that hold for this process, and the remedy. Without `root`, the folder that holds /proc and /sys.
// Leaves errno as it is.
std::string TaskWords(int error, const std::string& root = "");

}  // namespace rondo
