#include "tools/run/group_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <string_view>
#include <utility>

#include "tools/common/standard_streams.h"
#include "tools/run/child_process.h"

namespace rondo {
namespace {

constexpr int kLookEveryMs = 250;

// Whether `stat_fd`, an open /proc/PID/stat, shows a stopped process. A process that a debugger has stopped does not
// count.
bool IsStopped(int stat_fd) {
  std::array<char, 512> text{};  // "4711 (name) T ..."; the name may contain any character
  const ssize_t size = ::pread(stat_fd, text.data(), text.size(), 0);
  if (size <= 0) return false;
  const std::string_view stat(text.data(), static_cast<std::size_t>(size));
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string_view::npos && stat.substr(name_end).starts_with(") T");
}

// The main function of the guard process. It runs until no process has the other end of `from_launcher` open, which
// means that the launcher has ended. `launcher_stat`: -1 if /proc is not available.
[[noreturn]] void Guard(int from_launcher, int launcher_stat) {
  ::setsid();  // signals to the launcher's group or session must not reach the guard
  ::dup2(from_launcher, STDIN_FILENO);
  const int stat_fd = launcher_stat < 0 ? -1 : ::dup2(launcher_stat, STDERR_FILENO + 1);
  // The guard closes its copy, so that a reader of the launcher's stdout sees the end of the stream when the launcher
  // and its ranks have closed it.
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::close_range(stat_fd < 0 ? 3 : 4, ~0u, 0);
  OpenStandardStreams();
  std::set<pid_t> groups;
  const auto signal_all = [&](int signal) {
    for (const pid_t group : groups) ::kill(-group, signal);
  };
  bool are_stopped = false;
  while (true) {
    pollfd word_is_there{STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&word_is_there, 1, stat_fd < 0 ? -1 : kLookEveryMs);
    if (ready == 0 && IsStopped(stat_fd) != are_stopped) {
      are_stopped = !are_stopped;
      signal_all(are_stopped ? SIGSTOP : SIGCONT);
    }
    if (ready <= 0) continue;
    pid_t word = 0;
    const ssize_t got = ::read(STDIN_FILENO, &word, sizeof word);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof word) break;
    if (word > 0) groups.insert(word);
    if (word < 0) groups.erase(-word);
  }
  signal_all(SIGKILL);
  ::_exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  auto pipe = MakePipe();
  if (!pipe) return;
  const Fd stat(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  const pid_t pid = ::fork();
  if (pid == 0) {
    pipe->write.Close();
    Guard(pipe->read.get(), stat.get());
  }
  if (pid > 0) to_guard_ = std::move(pipe->write);
}

void GroupGuard::Send(pid_t word) {
  if (!to_guard_) return;
  while (::write(to_guard_.get(), &word, sizeof word) < 0 && errno == EINTR) {
  }
}

}  // namespace rondo
