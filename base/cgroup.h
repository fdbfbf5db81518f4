// The control groups (cgroups) of a process, version 1 and version 2, as the kernel describes them in files.
//
// A process is subject to the limit of its own group and to the limits of all enclosing groups. So all functions return
// the process's own group first and then the enclosing groups. A container often sees only some of these groups, and
// under a path that differs from the path in /proc. These functions then return the visible groups. They read files and
// allocate memory, so no hot path may call them.
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
// do not contain it. The result is empty if there is no such hierarchy. If /proc/self/cgroup does not exist, the result
// is the folder at which the hierarchy is mounted.
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root = "", pid_t pid = 0);

// A control group that accounts for memory.
struct MemoryCgroup {
  std::string folder;                        // names the group in messages: /sys/fs/cgroup/memory/docker/6f
  std::optional<std::uint64_t> limit_bytes;  // absent: the group itself has no limit
  std::uint64_t usage_bytes = 0;             // memory that the group's processes use now, including cached files
  std::uint64_t reclaimable_bytes = 0;       // the cached files within usage_bytes, which the kernel frees on demand
  std::optional<std::uint64_t> peak_bytes = {};  // the highest usage so far; absent: this kernel does not report it
  // number of processes that the kernel killed because memory ran out; absent: this kernel does not report it
  std::optional<std::uint64_t> oom_kills = {};

  // How much more memory the group may use; absent: no limit.
  std::optional<std::uint64_t> left_bytes() const;
};

// The memory group of this folder. nullopt: there is no such group, or it does not account for memory (like the
// root group of version 2).
std::optional<MemoryCgroup> ReadMemoryCgroup(const std::string& folder, const std::string& root = "");

// The memory groups that contain process `pid` (0: this process), its own group first. The result is empty if no group
// is visible, or none accounts for memory.
std::vector<MemoryCgroup> MemoryCgroups(const std::string& root = "", pid_t pid = 0);

// How many processes of this machine, in all groups, the kernel has killed because memory ran out. nullopt: the kernel
// does not report it.
std::optional<std::uint64_t> MachineOomKills(const std::string& root = "");

// A control group that limits the number of tasks (processes and threads) in it and in the groups below it.
struct TaskCgroup {
  std::string folder;
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
};

// The control groups that contain process `pid` (0: this process) and limit the number of tasks. The process's own
// group is first.
std::vector<TaskCgroup> TaskCgroups(const std::string& root = "", pid_t pid = 0);

// The group with the least remaining memory; null: no group has a limit.
const MemoryCgroup* TightestOf(const std::vector<MemoryCgroup>& groups);

}  // namespace rondo
