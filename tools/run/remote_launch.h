// The hosts of a job that has ranks on others than this one: reached, all at once, and told what they will have to
// start.
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
  std::vector<JobPlace> places;  // of these hosts
  int interrupted_by = 0;        // a signal that came before all were ready, else 0
};

// Every host of options.places, ready to start its ranks, within options.timeout (60 s where there is none). `ranks`:
// what all of them have in common, without addresses. The first host that fails is the error, by name:
// kUnreachable, kTimeout, kVersionMismatch, kInvalidArgument (no ssh here; no rondo or no such working directory
// there).
Result<JobHosts> ReachHosts(const LaunchOptions& options, const RankProcessOptions& ranks, std::uint16_t store_port,
                            const Clock& clock, const SignalFd& signals, TaggedOutput& output);

}  // namespace rondo
