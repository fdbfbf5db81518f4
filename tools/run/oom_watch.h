// Finds out whether the kernel killed a rank because memory ran out. The exit status of the process says SIGKILL only.
//
// The counters of the rank's cgroup, of version 1 or 2, show such a kill. After a process has ended its cgroup cannot
// be looked up any more, so the groups are noted while the ranks run.
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
  // `root`: the folder that contains /proc and /sys.
  explicit OomWatch(std::string root = "");

  // Notes the cgroups of a running rank.
  void Look(Rank rank, pid_t pid);
  // Returns for example "was killed by the kernel: out of memory (limit 160 MiB of cgroup /sys/fs/cgroup/job, peak 160
  // MiB)"; "" if memory did not run out or no counter shows it.
  std::string Explain(Rank rank, const ExitStatus& status);

 private:
  const std::string root_;
  std::map<Rank, std::vector<std::string>> folders_;  // the cgroup folders of each rank, its own group first
  std::map<std::string, std::uint64_t> kills_;  // by folder: kills before the ranks ran, and kills explained since
  std::optional<std::uint64_t> machine_kills_;  // the same count for the whole machine
};

}  // namespace rondo
