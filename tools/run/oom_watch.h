// Finds out whether the kernel killed a rank because memory ran out. The exit status of the process shows only SIGKILL.
//
// The counters of the rank's cgroup, of version 1 or 2, show such a kill. After a process has ended, its cgroup cannot
// be found any more, so the groups are recorded while the ranks run.
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

  // Records the cgroups of a running rank.
  void Look(Rank rank, pid_t pid);
  // Returns for example "was killed by the kernel: out of memory (limit 160 MiB of cgroup /sys/fs/cgroup/job, peak 160
  // MiB)"; "" if memory did not run out or no counter shows it.
  std::string Explain(Rank rank, const ExitStatus& status);

 private:
  const std::string root_;
  // the cgroup folders of each rank: its own cgroup, then the ancestors
  std::map<Rank, std::vector<std::string>> folders_;
  // For each cgroup folder: the number of kills before the ranks ran, plus the kills that Explain has reported since
  // then.
  std::map<std::string, std::uint64_t> kills_;
  std::optional<std::uint64_t> machine_kills_;  // for the whole machine: the number of kills, counted as in kills_
};

}  // namespace rondo
