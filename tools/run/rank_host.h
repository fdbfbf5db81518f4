// The interface to a host that runs some of a job's ranks. The host is this host (local_host.h), or another host with
// an agent (remote_host.h). The job (job.h) treats both in the same way.
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

// A rank that has ended, or that could not be started.
struct EndedRank {
  Rank rank = 0;
  pid_t pid = 0;
  ExitStatus status;
  std::string why;  // if not empty: text for messages that replaces the exit status, such as "was lost with its host"
};

// The stdin of a rank.
enum class RankInput : std::uint8_t {
  kNone,  // empty
  kOurs,  // the stdin of this process; on this host only
  kFed,   // the bytes that are passed to Feed
};

// Thread rule: one thread.
class RankHost {
 public:
  virtual ~RankHost() = default;

  // The name of the host in messages; "" if the job uses no other host.
  virtual const std::string& name() const = 0;
  // Whether this is the launcher's host. Only ranks of the launcher's host can have RankInput::kOurs.
  virtual bool is_here() const = 0;
  // Starts a rank. `environment`: the variables of this rank alone. An error means that the rank will not run. An error
  // that is found later is reported by TakeEnded.
  virtual Status Start(Rank rank, const Variables& environment, RankInput input) = 0;
  // Passes bytes to the stdin of a rank with RankInput::kFed. Empty `bytes` close this stdin. The bytes are dropped if
  // the rank has ended or has closed its stdin.
  virtual void Feed(Rank rank, std::string_view bytes) = 0;
  // The number of bytes passed to Feed that have not been written to the rank's pipe yet.
  virtual std::size_t Unread(Rank rank) const = 0;
  // Sends the signal to all ranks that run.
  virtual void Signal(int signal) = 0;

  // Adds the descriptors that poll must wait for.
  virtual void AddDescriptors(std::vector<pollfd>& fds) const = 0;
  // Advances pending work without waiting for other hosts or ranks.
  virtual void Pump() = 0;
  // Returns the ranks that have ended since the previous call. All output that these ranks wrote has been passed on.
  virtual std::vector<EndedRank> TakeEnded() = 0;
  // From now on, ranks that have not ended even after SIGKILL count as ended.
  virtual void GiveUp() = 0;
  // Tells the host that all ranks have ended and that no more will be started.
  virtual void Dismiss() = 0;
  // Passes on the remaining output of the ranks. REQUIRES: Dismiss was called.
  virtual void Finish() = 0;
};

}  // namespace rondo
