// The control groups (cgroups) of a process, of version 1 and version 2 alike: what the kernel says of them in files.
//
// A limit of any group around a process holds for it, too, so all functions give the process's own group first and then
// the groups around it. A container often sees only some of them, under another path than /proc gives: then these
// functions give the groups that are visible. They read files and allocate memory, and belong to no hot path.
//
// Thread rule: values; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo {

// The folders of the control groups of process `pid` (0: this process) in the hierarchy of `controller` ("memory",
// "cpu", "pids"), the process's own first; without `root`, the folder that holds /proc and /sys. Empty: there is no
// such hierarchy. Without /proc it is the one folder at the usual place.
std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root = "", pid_t pid = 0);

// A control group that accounts for memory.
struct MemoryCgroup {
  std::string folder;                            // names it in messages: /sys/fs/cgroup/memory/docker/6f
  std::optional<std::uint64_t> limit_bytes;      // absent: the group itself has no limit
  std::uint64_t usage_bytes = 0;                 // what its processes use now, cached files included
  std::uint64_t reclaimable_bytes = 0;           // of that: cached files, which the kernel gives back on demand
  std::optional<std::uint64_t> peak_bytes = {};  // the most that was ever used; absent: this kernel does not say
  std::optional<std::uint64_t> oom_kills = {};   // processes that the kernel killed for memory; absent: likewise

  // What may still be taken; absent: no limit.
  std::optional<std::uint64_t> left_bytes() const;
};

// The group of this folder; nullopt: there is none, or it does not account for memory (the root of version 2 does not
// say).
std::optional<MemoryCgroup> ReadMemoryCgroup(const std::string& folder, const std::string& root = "");

// Those of process `pid` (0: this process), its own first. Empty: none is visible, or memory is not accounted for.
std::vector<MemoryCgroup> MemoryCgroups(const std::string& root = "", pid_t pid = 0);

// How many processes of this machine the kernel has killed for memory, whatever their groups; nullopt: it does not say.
std::optional<std::uint64_t> MachineOomKills(const std::string& root = "");

// A control group that limits how many processes and threads (the kernel's tasks) are in it and in the groups below it.
struct TaskCgroup {
  std::string folder;
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
};

// Those around process `pid` (0: this process) that have a limit, its own first.
std::vector<TaskCgroup> TaskCgroups(const std::string& root = "", pid_t pid = 0);

// The one that leaves its processes the least memory now; null: none has a limit.
const MemoryCgroup* TightestOf(const std::vector<MemoryCgroup>& groups);

}  // namespace rondo
