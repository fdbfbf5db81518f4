#include "tools/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace rondo {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;  // a longer line is passed on in pieces

struct Pipe {
  int read = -1;
  int write = -1;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return Fail(ErrorCode::kResource, "no pipe: {}", std::strerror(errno));
  return Pipe{fds[0], fds[1]};
}

void CloseAll(std::initializer_list<int> fds) {
  for (int fd : fds)
    if (fd >= 0) ::close(fd);
}

// Our environment with some variables replaced, and some left out.
std::vector<std::string> MergedEnvironment(const RankProcessOptions& options) {
  const auto& changes = options.environment;
  std::vector<std::string> merged;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(changes.begin(), changes.end(), [&](const auto& c) { return c.first == name; });
    const bool left_out = options.leave_out && options.leave_out(name);
    if (!replaced && !left_out) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What the child does between fork and exec: system calls only, because other threads of ours may hold any lock.
[[noreturn]] void BecomeCommand(char** argv, char** envp, int out, int err, int failure_pipe, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before it could be watched
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  if (out >= 0) ::dup2(out, STDOUT_FILENO);
  if (err >= 0) ::dup2(err, STDERR_FILENO);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvpe(argv[0], argv, envp);
  const int reason = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure_pipe, &reason, sizeof reason);
  ::_exit(127);
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace

std::string ExitStatus::ToString() const {
  return signal != 0 ? fmt::format("was killed by {}", SignalName(signal)) : fmt::format("exited with code {}", code);
}

Result<std::unique_ptr<RankProcess>> RankProcess::Start(const RankProcessOptions& options) {
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = MergedEnvironment(options);
  std::vector<char*> argv = Pointers(command);
  std::vector<char*> envp = Pointers(environment);

  Pipe failure, out, err;
  RONDO_ASSIGN(failure, MakePipe());
  if (options.tag_output) {
    Result<Pipe> first = MakePipe();
    Result<Pipe> second = first ? MakePipe() : first;
    if (!second) {
      CloseAll({failure.read, failure.write});
      if (first) CloseAll({first->read, first->write});
      return Fail(second.error());
    }
    out = *first;
    err = *second;
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) BecomeCommand(argv.data(), envp.data(), out.write, err.write, failure.write, parent);
  const int fork_error = errno;
  CloseAll({failure.write, out.write, err.write});
  if (pid < 0) {
    CloseAll({failure.read, out.read, err.read});
    return Fail(ErrorCode::kResource, "rank {} could not be started: {}", options.rank, std::strerror(fork_error));
  }
  ::setpgid(pid, pid);  // here too, so that it holds whoever comes first

  std::unique_ptr<RankProcess> process(new RankProcess(options.rank, pid));
  if (options.tag_output) {
    for (int fd : {out.read, err.read}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    process->streams_ = {{out.read, STDOUT_FILENO, {}}, {err.read, STDERR_FILENO, {}}};
  }
  // The pipe closes at exec, empty; or it brings the reason why there was none.
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure.read, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  ::close(failure.read);
  if (got == sizeof reason) {
    return Fail(ErrorCode::kInvalidArgument, "'{}' cannot be run: {}", options.command.front(), std::strerror(reason));
  }
  return process;
}

RankProcess::~RankProcess() {
  if (running()) {
    Signal(SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  for (const Stream& stream : streams_) CloseAll({stream.from});
}

void RankProcess::Signal(int signal) const {
  if (running()) ::kill(-pid_, signal);
}

std::optional<ExitStatus> RankProcess::Reap() {
  if (exit_status_) return exit_status_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  ::kill(-pid_, SIGKILL);  // while the unreaped leader still holds the group's number
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_status_ = WIFSIGNALED(status) ? ExitStatus{0, WTERMSIG(status)} : ExitStatus{WEXITSTATUS(status), 0};
  return exit_status_;
}

std::vector<int> RankProcess::output_fds() const {
  std::vector<int> fds;
  for (const Stream& stream : streams_)
    if (stream.from >= 0) fds.push_back(stream.from);
  return fds;
}

bool RankProcess::PumpOutput() {
  return std::all_of(streams_.begin(), streams_.end(), [&](Stream& stream) { return Pump(stream); });
}

bool RankProcess::FinishOutput() {
  bool alive = PumpOutput();
  for (Stream& stream : streams_) alive = WriteLines(stream, /*all=*/true) && alive;
  return alive;
}

bool RankProcess::Pump(Stream& stream) const {
  std::array<char, kMaxLineBytes> buffer;
  while (stream.from >= 0) {
    const ssize_t got = ::read(stream.from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      ::close(stream.from);
      stream.from = -1;
      return WriteLines(stream, /*all=*/true);
    }
    stream.line_begun.append(buffer.data(), static_cast<std::size_t>(got));
    if (!WriteLines(stream, stream.line_begun.size() >= kMaxLineBytes)) return false;
  }
  return true;
}

bool RankProcess::WriteLines(Stream& stream, bool all) const {
  std::string_view rest = stream.line_begun;
  std::string tagged;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && !all) break;
    end = std::min(end, rest.size());
    tagged += fmt::format("[{}] {}\n", rank_, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  stream.line_begun = std::string(rest);
  return WriteAll(stream.to, tagged);
}

}  // namespace rondo
