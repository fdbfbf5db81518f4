// Error texts for the limits on processes and threads. The kernel counts both as tasks.
#pragma once

#include <string>

namespace rondo {

// Describes in words why a thread or process could not be started. `error` is the errno. If a limit caused the failure
// (EAGAIN), the text names the need, the limits of this process, and the remedy. `root` is the folder that holds /proc
// and /sys. Preserves errno.
std::string TaskWords(int error, const std::string& root = "");

}  // namespace rondo
