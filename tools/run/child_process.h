// A child process. It has a process group of its own, inherits only the descriptors that it is given, and is killed
// when this process ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/result.h"

namespace rondo {

// Names and values of environment variables.
using Variables = std::vector<std::pair<std::string, std::string>>;
// The environment variables of this process.
Variables ProcessVariables();

struct Pipe {
  Fd read;
  Fd write;
};
// Makes a pipe. exec closes both of its ends.
Result<Pipe> MakePipe();

// How a process ended.
struct ExitStatus {
  int code = 0;    // the exit code, if the process exited
  int signal = 0;  // the signal that killed the process; 0: the process exited
  bool failed() const { return code != 0 || signal != 0; }
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string ToString() const;  // "exited with code 3", "was killed by SIGKILL"
};

class GroupGuard;

struct ChildOptions {
  std::vector<std::string> command;  // the command; the PATH in `environment` is searched for its program
  Variables environment;             // the complete environment of the child
  int in = -1;                       // the child's stdin; -1: /dev/null
  int out = -1;                      // the child's stdout; -1: the stdout of this process
  int err = -1;                      // the child's stderr; -1: the stderr of this process
  GroupGuard* guard = nullptr;       // must outlive the child; kills the child's process group if this process ends
};

// Thread rule: only the thread that started the child (the kernel kills the child when that thread ends).
class ChildProcess {
 public:
  // Starts the child with no signal blocked. kInvalidArgument: the command cannot be run; the message says why.
  static Result<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  // Kills the whole process group by SIGKILL if the child still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return !exit_status_; }

  // Sends the signal to the whole process group. Does nothing after the child has been reaped.
  void Signal(int signal) const;
  // If the child has ended, reaps it and kills the remaining processes of its process group. nullopt: the child still
  // runs.
  std::optional<ExitStatus> Reap();
  // Waits up to `patience` for the end of the child, then kills its process group. Always reaps the child.
  ExitStatus ReapWithin(Duration patience);

 private:
  ChildProcess(pid_t pid, GroupGuard* guard);

  const pid_t pid_;
  GroupGuard* const guard_;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace rondo
