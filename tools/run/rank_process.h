// A rank of a job on this host. It is a child process with pipes for its input and output.
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

// Called with bytes that a rank wrote to its stdout (1) or stderr (2); empty `bytes` mean the end of that stream.
using OutputSink = std::function<void(Rank rank, int stream, std::string_view bytes)>;

struct RankProcessOptions {
  Rank rank = 0;
  std::vector<std::string> command;  // found by PATH
  Variables environment;             // added to our environment; if a name occurs twice, the later value counts
  // Whether to remove this variable from our environment; null: remove nothing.
  std::function<bool(std::string_view variable)> leave_out;
  RankInput input = RankInput::kNone;
  OutputSink output;               // gets the output of the streams in `relayed`
  std::vector<int> relayed{1, 2};  // streams that go to `output`; the rank inherits the others from us
  GroupGuard* guard = nullptr;     // see ChildOptions::guard
};

// Thread rule: only the thread that started the rank (the kernel kills the child when that thread ends).
class RankProcess {
 public:
  // Starts the rank with no signal blocked. The rank inherits only these descriptors: stdout and stderr if they are not
  // relayed, and stdin if its input is kOurs. kInvalidArgument: the command cannot be run; the message says why.
  static Result<std::unique_ptr<RankProcess>> Start(const RankProcessOptions& options);

  Rank rank() const { return rank_; }
  // The process, for signals and reaping. Its destructor kills it.
  ChildProcess& child() { return *child_; }

  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Passes on output that has arrived, a bounded amount in one call.
  void PumpOutput();
  // Passes on output that has arrived, and ends both streams even if the rank has not closed them.
  void FinishOutput();

  // See RankHost::Feed and RankHost::Unread.
  void Feed(std::string_view bytes);
  std::size_t unread() const { return unread_.size(); }
  // Writes waiting input until the pipe is full.
  void PumpInput();

 private:
  struct Stream {
    int number = 1;  // 1: stdout, 2: stderr
    Fd from;         // our end of the pipe
  };
  RankProcess() = default;
  void Pump(Stream& stream) const;
  void End(Stream& stream) const;

  Rank rank_ = 0;
  OutputSink output_;
  std::unique_ptr<ChildProcess> child_;
  std::vector<Stream> streams_;
  Fd input_;            // our end of the pipe to the rank's stdin, if its input is RankInput::kFed
  std::string unread_;  // input that did not fit into the pipe yet
  bool input_ends_ = false;
};

}  // namespace rondo
