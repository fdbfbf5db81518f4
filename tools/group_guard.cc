#include "tools/group_guard.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "tools/child_process.h"
#include "tools/standard_streams.h"

namespace rondo {
namespace {

// Until nobody holds the other end any more: the launcher has ended.
[[noreturn]] void Guard(int from_launcher) {
  ::setsid();  // what is sent to the launcher's group or session is not meant for this one
  ::dup2(from_launcher, STDIN_FILENO);
  ::close(STDOUT_FILENO);  // who reads there waits for the launcher and its ranks alone
  ::close(STDERR_FILENO);
  ::close_range(3, ~0u, 0);
  OpenStandardStreams();
  std::set<pid_t> groups;
  pid_t word = 0;
  ssize_t got = 0;
  while ((got = ::read(STDIN_FILENO, &word, sizeof word)) == sizeof word || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (word > 0) groups.insert(word);
    if (word < 0) groups.erase(-word);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

GroupGuard::GroupGuard() {
  auto pipe = MakePipe();
  if (!pipe) return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    pipe->write.Close();
    Guard(pipe->read.get());
  }
  if (pid > 0) to_guard_ = std::move(pipe->write);
}

void GroupGuard::Tell(pid_t word) {
  if (!to_guard_) return;
  while (::write(to_guard_.get(), &word, sizeof word) < 0 && errno == EINTR) {
  }
}

}  // namespace rondo
