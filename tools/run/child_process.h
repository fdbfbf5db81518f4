// A child process: in a process group of its own, with no descriptors but those it is given, and gone when we are.
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

// Of an environment: names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;
// Those of this process.
Variables ProcessVariables();

struct Pipe {
  Fd read;
  Fd write;
};
// Closed in whatever is executed.
Result<Pipe> MakePipe();

// How a process ended.
struct ExitStatus {
  int code = 0;    // its exit code, when it exited
  int signal = 0;  // the signal that killed it, else 0
  bool failed() const { return code != 0 || signal != 0; }
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string ToString() const;  // "exited with code 3", "was killed by SIGKILL"
};

class GroupGuard;

struct ChildOptions {
  std::vector<std::string> command;  // looked up in the PATH of its environment
  Variables environment;             // all of it
  int in = -1;                       // its stdin; -1: empty
  int out = -1;                      // its stdout; -1: ours
  int err = -1;                      // its stderr; -1: ours
  GroupGuard* guard = nullptr;       // outlives it; ends its process group should we be gone
};

// Thread rule: one thread, the one that started it (the kernel ends the child when that thread goes).
class ChildProcess {
 public:
  // No signal is blocked in it. kInvalidArgument: the command cannot be run, and why.
  static Result<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  // Ends its whole process group by SIGKILL if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return !exit_status_; }

  // To the whole process group. Nothing happens once it has been reaped.
  void Signal(int signal) const;
  // Reaps it if it has ended; nullopt while it runs. What it left behind in its process group ends with it.
  std::optional<ExitStatus> Reap();
  // The same, and waits for its end: so long, then ends it.
  ExitStatus ReapWithin(Duration patience);

 private:
  ChildProcess(pid_t pid, GroupGuard* guard);

  const pid_t pid_;
  GroupGuard* const guard_;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace rondo
