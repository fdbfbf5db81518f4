// Connects to all hosts of a job at the same time, and sends the job to each of them, so that they can start its ranks.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "tools/run/job.h"
#include "tools/run/launch.h"
#include "tools/run/rank_host.h"
#include "tools/run/rank_process.h"
#include "tools/run/signal_fd.h"
#include "tools/run/tagged_output.h"

namespace rondo {

struct JobHosts {
  std::vector<std::unique_ptr<RankHost>> hosts;
  std::vector<JobPlace> places;  // the ranks of each host
  int interrupted_by = 0;        // the signal that interrupted the wait for the hosts, otherwise 0
};

// Reaches every host of options.places within options.timeout (60 s if not set), and makes it ready to start ranks.
// `ranks`: the options that all ranks share, without addresses. The error is that of the first host that fails, and
// names it: kUnreachable, kTimeout, kVersionMismatch, or kInvalidArgument. kInvalidArgument means that the launcher's
// host has no ssh, or that the failed host has no rondo or no such working directory.
Result<JobHosts> ReachHosts(const LaunchOptions& options, const RankProcessOptions& ranks, std::uint16_t store_port,
                            const Clock& clock, const SignalFd& signals, TaggedOutput& output);

}  // namespace rondo
