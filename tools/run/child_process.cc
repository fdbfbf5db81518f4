#include "tools/run/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/net/descriptors.h"
#include "base/tasks.h"
#include "tools/run/group_guard.h"

namespace rondo {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child between fork and exec. It makes only system calls, because other threads of the parent may have
// held locks at the time of the fork.
[[noreturn]] void BecomeCommand(char** argv, char** envp, const ChildOptions& options, int failure_pipe, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before PR_SET_PDEATHSIG was in force
  // The child adds its own group, because the parent may be stopped before it can add the group.
  if (options.guard != nullptr) options.guard->Add(::getpid());
  const int in = options.in >= 0 ? options.in : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in >= 0) ::dup2(in, STDIN_FILENO);
  if (options.out >= 0) ::dup2(options.out, STDOUT_FILENO);
  if (options.err >= 0) ::dup2(options.err, STDERR_FILENO);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  ::environ = envp;  // execvp searches the PATH of this environment
  ::execvp(argv[0], argv);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure_pipe, &reason, sizeof reason);
  ::_exit(127);
}

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace

Variables ProcessVariables() {
  Variables variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    return Fail(ErrorCode::kResource, "a pipe could not be created: {}", SystemWords(errno));
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

std::string ExitStatus::ToString() const {
  return signal != 0 ? fmt::format("was killed by {}", SignalName(signal)) : fmt::format("exited with code {}", code);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options) {
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment;
  for (const auto& [name, value] : options.environment) environment.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> argv = Pointers(command);
  std::vector<char*> envp = Pointers(environment);

  RONDO_ASSIGN(Pipe failure, MakePipe());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) BecomeCommand(argv.data(), envp.data(), options, failure.write.get(), parent);
  if (pid < 0) return Fail(ErrorCode::kResource, "no process could be started: {}", TaskWords(errno));
  failure.write.Close();
  // called in the parent and in the child, so that the group exists whichever of the two runs first
  ::setpgid(pid, pid);
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid, options.guard));
  // A successful exec closes the pipe without a byte. Otherwise the child writes errno to it.
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure.read.get(), &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof reason) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' cannot be run: {}", options.command.front(), std::strerror(reason));
  }
  return child;
}

ChildProcess::ChildProcess(pid_t pid, GroupGuard* guard) : pid_(pid), guard_(guard) {
  if (guard_ != nullptr) guard_->Add(pid_);
}

ChildProcess::~ChildProcess() { ReapWithin(Duration::zero()); }

void ChildProcess::Signal(int signal) const {
  if (running()) ::kill(-pid_, signal);
}

std::optional<ExitStatus> ChildProcess::Reap() {
  if (exit_status_) return exit_status_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno != ECHILD) return std::nullopt;
    if (guard_ != nullptr) guard_->Remove(pid_);
    exit_status_ = ExitStatus{1, 0};  // other code of this process has reaped the child, so its exit status is unknown
    return exit_status_;
  }
  if (info.si_pid == 0) return std::nullopt;
  // called before waitpid, because until waitpid the zombie prevents the reuse of the group's number
  ::kill(-pid_, SIGKILL);
  if (guard_ != nullptr) guard_->Remove(pid_);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_status_ = WIFSIGNALED(status) ? ExitStatus{0, WTERMSIG(status)} : ExitStatus{WEXITSTATUS(status), 0};
  return exit_status_;
}

ExitStatus ChildProcess::ReapWithin(Duration patience) {
  const Fd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  const auto wait = [&](int timeout_ms) {
    pollfd fd{ended.get(), POLLIN, 0};
    ::poll(&fd, 1, timeout_ms);
  };
  if (!Reap() && patience > Duration::zero() && ended) {
    wait(static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count()));
  }
  if (!Reap()) Signal(SIGKILL);
  while (!Reap()) wait(100);
  return *exit_status_;
}

}  // namespace rondo
