// One rank of a job on this host: a child process, and its output as it comes.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/net/fd.h"
#include "base/result.h"
#include "tools/run/child_process.h"
#include "tools/run/rank_host.h"

namespace rondo {

// Takes what a rank wrote to its stdout (1) or stderr (2); no bytes: that stream has ended.
using OutputSink = std::function<void(Rank rank, int stream, std::string_view bytes)>;

struct RankProcessOptions {
  Rank rank = 0;
  std::vector<std::string> command;                          // looked up in PATH
  Variables environment;                                     // on top of ours; the last of a name holds
  std::function<bool(std::string_view variable)> leave_out;  // of ours; null: nothing
  RankInput input = RankInput::kNone;
  OutputSink output;               // of the streams that are relayed
  std::vector<int> relayed{1, 2};  // to `output`; of the others the rank has ours
  GroupGuard* guard = nullptr;     // as ChildOptions::guard
};

// Thread rule: one thread, the one that started it (the kernel ends the child when that thread goes).
class RankProcess {
 public:
  // Of our descriptors it gets stdout, stderr and, where that is its input, stdin, and no signal is blocked.
  // kInvalidArgument: the command cannot be run, and why.
  static Result<std::unique_ptr<RankProcess>> Start(const RankProcessOptions& options);

  Rank rank() const { return rank_; }
  // Its destructor ends it. To signal and to reap.
  ChildProcess& child() { return *child_; }

  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Passes on what has arrived, a bounded amount of it.
  void PumpOutput();
  // The same, and no more will come.
  void FinishOutput();

  // As RankHost::Feed and Unread.
  void Feed(std::string_view bytes);
  std::size_t unread() const { return unread_.size(); }
  // Writes on, as far as there is room.
  void PumpInput();

 private:
  struct Stream {
    int number = 1;  // 1: stdout, 2: stderr
    Fd from;         // the pipe's end
  };
  RankProcess() = default;
  void Pump(Stream& stream) const;
  void End(Stream& stream) const;

  Rank rank_ = 0;
  OutputSink output_;
  std::unique_ptr<ChildProcess> child_;
  std::vector<Stream> streams_;
  Fd input_;            // the pipe's end, of one that is fed
  std::string unread_;  // what the pipe had no room for
  bool input_ends_ = false;
};

}  // namespace rondo
