// Whether the kernel killed a rank because memory ran out: a wait for the process says SIGKILL, and no more.
//
// What happened stands in the counters of the rank's control group, of version 1 and version 2. A process that has
// ended does not say any more which group that was, so ranks are looked at while they run.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tools/run/child_process.h"

namespace rondo {

class OomWatch {
 public:
  // `root`: the folder that holds /proc and /sys.
  explicit OomWatch(std::string root = "");

  // Notes the groups of a rank that runs.
  void Look(Rank rank, pid_t pid);
  // "was killed by the kernel: out of memory (limit 160 MiB of cgroup /sys/fs/cgroup/job, peak 160 MiB)"; "": it was
  // not, or nobody knows.
  std::string Explain(Rank rank, const ExitStatus& status);

 private:
  const std::string root_;
  std::map<Rank, std::vector<std::string>> folders_;  // of its groups, its own first
  std::map<std::string, std::uint64_t> kills_;        // of a folder: before its ranks ran, and those explained since
  std::optional<std::uint64_t> machine_kills_;        // the same of the whole machine
};

}  // namespace rondo
