// The control groups (cgroups) of a process, version 1 and version 2, as the kernel describes them in files.
//
// A process is subject to the limit of its own group and to those of all groups around that one. So all functions
// return the process's own group first and then the groups around it. A container often sees only some of these groups,
// and under another path than /proc gives; these functions then return the visible groups. They read files and allocate
// memory, so no hot path may call them.
//
// Thread rule: plain values; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

// The folders of the control groups of process `pid` (0: this process) in the hierarchy of `controller` ("memory",
// "cpu", "pids"). The process's own group is first. `root` is the folder that holds /proc and /sys; the returned paths
// do not contain it. Empty: there is no such hierarchy. Without /proc/self/cgroup the result is the folder at the usual
// place.
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root = "", pid_t pid = 0);

// A control group that accounts for memory.
struct MemoryCgroup {
  std::string folder;                        // names the group in messages: /sys/fs/cgroup/memory/docker/6f
  std::optional<std::uint64_t> limit_bytes;  // absent: the group itself has no limit
  std::uint64_t usage_bytes = 0;             // what the group's processes use now, including cached files
  std::uint64_t reclaimable_bytes = 0;       // the cached files within usage_bytes, which the kernel frees on demand
  std::optional<std::uint64_t> peak_bytes = {};  // the highest usage so far; absent: this kernel does not report it
  std::optional<std::uint64_t> oom_kills = {};   // processes that the kernel killed for memory; absent: not reported

  // How much more memory the group may use; absent: no limit.
  std::optional<std::uint64_t> left_bytes() const;
};

// The memory group of this folder. nullopt: there is no such group, or it does not account for memory (the root of
// version 2 does not report it).
std::optional<MemoryCgroup> ReadMemoryCgroup(const std::string& folder, const std::string& root = "");

// The memory groups around process `pid` (0: this process), its own first. Empty: no group is visible, or none accounts
// for memory.
std::vector<MemoryCgroup> MemoryCgroups(const std::string& root = "", pid_t pid = 0);

// How many processes of this machine the kernel has killed for memory, in all groups. nullopt: the kernel does not
// report it.
std::optional<std::uint64_t> MachineOomKills(const std::string& root = "");

// A control group that limits the number of tasks (processes and threads) in it and in the groups below it.
struct TaskCgroup {
  std::string folder;
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
};

// The groups around process `pid` (0: this process) that have such a limit, its own first.
std::vector<TaskCgroup> TaskCgroups(const std::string& root = "", pid_t pid = 0);

// The group that leaves its processes the least memory now; null: no group has a limit.
const MemoryCgroup* TightestOf(const std::vector<MemoryCgroup>& groups);

}  // namespace rondo
