// One rank of a local job: a child process in a process group of its own that dies with us, and its output, line by
// line.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace rondo {

struct RankProcessOptions {
  Rank rank = 0;
  std::vector<std::string> command;                              // looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // on top of ours
  std::function<bool(std::string_view variable)> leave_out;      // of ours; null: nothing
  bool tag_output =
      true;  // its lines go to our stdout and stderr with "[rank] " in front; false: it writes there itself
};

// How a process ended.
struct ExitStatus {
  int code = 0;    // its exit code, when it exited
  int signal = 0;  // the signal that killed it, else 0
  bool failed() const { return code != 0 || signal != 0; }
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string ToString() const;  // "exited with code 3", "was killed by SIGKILL"
};

// Thread rule: one thread, the one that started it (the kernel ends the child when that thread goes).
class RankProcess {
 public:
  // The command's stdin is empty, of our descriptors it gets only stdout and stderr, and no signal is blocked.
  // kInvalidArgument: the command cannot be run, and why.
  static Result<std::unique_ptr<RankProcess>> Start(const RankProcessOptions& options);
  // Ends its whole process group by SIGKILL if it still runs.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  Rank rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  bool running() const { return !exit_status_; }

  // To the whole process group. Nothing happens once it has been reaped.
  void Signal(int signal) const;
  // Reaps it if it has ended; nullopt while it runs. What it left behind in its process group ends with it.
  std::optional<ExitStatus> Reap();

  // Descriptors to poll for reading; closed ones are left out.
  std::vector<int> output_fds() const;
  // Passes on what has arrived, whole lines at a time. False: our own stdout or stderr is gone.
  bool PumpOutput();
  // The same, then the unfinished lines too.
  bool FinishOutput();

 private:
  struct Stream {
    int from = -1;  // the pipe's end
    int to = -1;    // our stdout or stderr
    std::string line_begun;
  };
  RankProcess(Rank rank, pid_t pid) : rank_(rank), pid_(pid) {}
  bool Pump(Stream& stream) const;
  bool WriteLines(Stream& stream, bool all) const;

  Rank rank_;
  pid_t pid_;
  std::optional<ExitStatus> exit_status_;
  std::vector<Stream> streams_;
};

}  // namespace rondo
