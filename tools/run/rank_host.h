// Where some of a job's ranks run: this host (local_host.h), or another by way of an agent there (remote_host.h). A job
// (job.h) sees no difference.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tools/run/child_process.h"

namespace rondo {

// A rank that has ended, or never began.
struct EndedRank {
  Rank rank = 0;
  pid_t pid = 0;
  ExitStatus status;
  std::string why;  // not empty: what became of it beside its own end ("its command cannot be run", "its host is gone")
};

// What a rank has for its stdin.
enum class RankInput : std::uint8_t {
  kNone,  // nothing
  kOurs,  // that of this process; on this host only
  kFed,   // what Feed brings
};

// Thread rule: one thread.
class RankHost {
 public:
  virtual ~RankHost() = default;

  // What it is called in messages; "" where the job has no other host.
  virtual const std::string& name() const = 0;
  // Whether ranks there can have RankInput::kOurs.
  virtual bool is_here() const = 0;
  // `environment`: what this rank alone has. An error means that it will not run; what is found out later comes from
  // TakeEnded.
  virtual Status Start(Rank rank, const Variables& environment, RankInput input) = 0;
  // For the stdin of a rank that is fed; no bytes: that is the end. A rank that has ended, or reads no more, drops it.
  virtual void Feed(Rank rank, std::string_view bytes) = 0;
  // How much of that has not reached its pipe.
  virtual std::size_t Unread(Rank rank) const = 0;
  // To all ranks that run.
  virtual void Signal(int signal) = 0;

  // What to wait for.
  virtual void AddDescriptors(std::vector<pollfd>& fds) const = 0;
  // Does what there is to do, without waiting for other hosts or ranks.
  virtual void Pump() = 0;
  // Each rank once. What it wrote before its end has been passed on.
  virtual std::vector<EndedRank> TakeEnded() = 0;
  // Takes the ranks that do not even obey SIGKILL for ended.
  virtual void GiveUp() = 0;
  // No rank will be started any more, and none runs.
  virtual void Dismiss() = 0;
  // After that: passes on what is left of their output.
  virtual void Finish() = 0;
};

}  // namespace rondo
