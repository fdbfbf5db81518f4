#include "base/tasks.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/cgroup.h"

namespace rondo {
namespace {

// Returns for example "control group /sys/fs/cgroup/pids/G allows 12 processes and threads (pids.max) and has 12".
std::string Limits(const std::string& root) {
  std::string limits;
  const auto add = [&](const std::string& limit) {
    if (!limits.empty()) limits += ", and ";
    limits += limit;
  };
  for (const TaskCgroup& group : TaskCgroups(root))
    add(fmt::format("control group {} allows {} processes and threads (pids.max) and has {}", group.folder, group.limit,
                    group.used));
  rlimit user{};
  // The kernel does not apply this limit to root.
  if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY)
    add(fmt::format("this user may have at most {} (ulimit -u, RLIMIT_NPROC)", user.rlim_cur));
  if (limits.empty()) limits = "the system limits their number (sysctl kernel.threads-max, kernel.pid_max)";
  return limits;
}

}  // namespace

std::string TaskWords(int error, const std::string& root) {
  const std::string message = std::generic_category().message(error);
  if (error != EAGAIN) return message;
  const int errno_before = errno;
  const std::string limits = Limits(root);
  errno = errno_before;
  return fmt::format("{}: it takes 1 more process or thread, but {}; raise the limit or start fewer ranks", message,
                     limits);
}

}  // namespace rondo
