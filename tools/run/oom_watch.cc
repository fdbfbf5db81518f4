#include "tools/run/oom_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/cgroup.h"
#include "tools/common/sizes.h"

namespace rondo {
namespace {

std::uint64_t MostUsed(const MemoryCgroup& group) { return group.peak_bytes.value_or(group.usage_bytes); }

// The memory of the cgroup that was still free when usage was highest. The result is at least 0, although cgroup
// version 1 can count a few pages more than the limit.
std::uint64_t LeastLeft(const MemoryCgroup& group) {
  return *group.limit_bytes - std::min(*group.limit_bytes, MostUsed(group));
}

// Describes the limit that was reached: the limit of the cgroup with the least remaining memory, or the memory of the
// machine.
std::string LimitText(const std::vector<MemoryCgroup>& groups) {
  const MemoryCgroup* tightest = nullptr;
  for (const MemoryCgroup& group : groups)
    if (group.limit_bytes && (tightest == nullptr || LeastLeft(group) < LeastLeft(*tightest))) tightest = &group;
  const bool is_far = tightest != nullptr && tightest->peak_bytes && LeastLeft(*tightest) > *tightest->limit_bytes / 8;
  if (tightest == nullptr || is_far) return "of the machine: no limit of its cgroups was reached";
  const std::string limit = fmt::format("limit {} of cgroup {}", FormatSize(*tightest->limit_bytes), tightest->folder);
  if (!tightest->peak_bytes) return limit;
  return fmt::format("{}, peak {}", limit, FormatSize(*tightest->peak_bytes));
}

}  // namespace

OomWatch::OomWatch(std::string root) : root_(std::move(root)), machine_kills_(MachineOomKills(root_)) {}

void OomWatch::Look(Rank rank, pid_t pid) {
  std::vector<std::string> folders = CgroupFolders("memory", root_, pid);
  // For a process that is ending, cgroup version 1 reports the root cgroup. This must not replace an earlier, more
  // precise result.
  const auto known = folders_.find(rank);
  if (folders.empty() || (folders.size() == 1 && known != folders_.end() && known->second.size() > 1)) return;
  for (const std::string& folder : folders)
    if (kills_.count(folder) == 0)
      if (const auto group = ReadMemoryCgroup(folder, root_)) kills_[folder] = group->oom_kills.value_or(0);
  folders_[rank] = std::move(folders);
}

std::string OomWatch::Explain(Rank rank, const ExitStatus& status) {
  if (!status.failed()) return "";
  const bool killed = status.signal == SIGKILL;
  std::vector<MemoryCgroup> groups;
  for (const std::string& folder : folders_[rank])
    if (auto group = ReadMemoryCgroup(folder, root_)) groups.push_back(*std::move(group));
  const auto own = std::find_if(groups.begin(), groups.end(), [](auto& group) { return group.oom_kills.has_value(); });
  if (own != groups.end() && *own->oom_kills > kills_[own->folder]) {
    const std::string limit = LimitText(groups);
    if (!killed)
      return fmt::format("{}; meanwhile the kernel killed a process of its cgroup: out of memory ({})",
                         status.ToString(), limit);
    ++kills_[own->folder];
    if (machine_kills_) ++*machine_kills_;
    return fmt::format("was killed by the kernel: out of memory ({})", limit);
  }
  const auto machine = MachineOomKills(root_);
  if (!killed || !machine || !machine_kills_ || *machine <= *machine_kills_) return "";
  return fmt::format("{}; meanwhile the kernel killed a process of this machine: out of memory (see its log, dmesg)",
                     status.ToString());
}

}  // namespace rondo
