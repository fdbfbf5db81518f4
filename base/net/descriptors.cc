#include "base/net/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "base/net/fd.h"

namespace rondo {

DescriptorUse CountDescriptors() {
  DescriptorUse use;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) use.limit = limit.rlim_cur;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) {  // no descriptor is available to open the directory, or there is no /proc
    use.open = errno == EMFILE ? use.limit : 0;
    return use;
  }
  while (const dirent* entry = readdir(directory)) use.open += entry->d_name[0] != '.';
  closedir(directory);
  use.open -= 1;  // the directory itself
  return use;
}

namespace {

// "3 more file descriptors, and 255 of 256 are open; raise the limit (ulimit -n)"
std::string Need(int error, std::size_t descriptors) {
  const std::string need = fmt::format("{} more file descriptor{}", descriptors, descriptors == 1 ? "" : "s");
  if (error != EMFILE) return fmt::format("{}: {}", need, std::generic_category().message(error));
  const DescriptorUse use = CountDescriptors();
  return fmt::format("{}, and {} of {} are open; raise the limit (ulimit -n)", need, use.open, use.limit);
}

}  // namespace

std::string SystemWords(int error, std::size_t descriptors) {
  const std::string message = std::generic_category().message(error);
  if (error == ENFILE) return fmt::format("{}: raise the system's limit (sysctl fs.file-max)", message);
  if (error != EMFILE) return message;
  const int errno_before = errno;
  const std::string need = Need(error, descriptors);
  errno = errno_before;
  return fmt::format("{}: it takes {}", message, need);
}

Status CheckDescriptorsLeft(std::size_t count, const std::string& what) {
  std::vector<Fd> taken;
  taken.reserve(count);
  while (taken.size() < count) {
    Fd fd(taken.empty() ? eventfd(0, EFD_CLOEXEC) : fcntl(taken.front().get(), F_DUPFD_CLOEXEC, 0));
    if (!fd) {
      const int error = errno;
      taken.clear();  // closes these descriptors, so that the count in the message excludes them
      return Fail(ErrorCode::kResource, "{} needs {}", what, Need(error, count));
    }
    taken.push_back(std::move(fd));
  }
  return {};
}

}  // namespace rondo
