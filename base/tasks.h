// Error texts for the limits on processes and threads. The kernel counts both as tasks.
#pragma once

#include <string>

namespace rondo {

// Describes in words why a thread or process could not be started. `error` is the errno. If a limit caused the failure
// (EAGAIN), the text says what was needed, names the limits of this process, and gives the remedy. `root` is the folder
// that holds /proc and /sys. Preserves errno.
std::string TaskWords(int error, const std::string& root = "");

}  // namespace rondo
