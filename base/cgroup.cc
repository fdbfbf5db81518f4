#include "base/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace rondo {
namespace {

// Version 1 expresses "no limit" as its largest value: 2^63 - 1, rounded down to whole pages. Every limit from this
// constant on means "no limit".
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

// The group of a process in one hierarchy.
struct Membership {
  bool version_2 = false;
  std::string controllers;  // "cpu,cpuacct"; "" in version 2
  std::string path;         // the group's path below the hierarchy's root
};

// The folder where a hierarchy is mounted, and the group that is visible at that folder.
struct Mount {
  std::string group;
  std::string folder;
};

bool IsInList(std::string_view list, std::string_view word) {
  std::istringstream words{std::string(list)};
  for (std::string one; std::getline(words, one, ',');)
    if (one == word) return true;
  return false;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The kernel writes blanks and backslashes in mountinfo as \040 and \134.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto digit = [&](std::size_t ahead) { return static_cast<unsigned>(text[at + ahead] - '0'); };
    if (text[at] == '\\' && at + 3 < text.size() && digit(1) < 4 && digit(2) < 8 && digit(3) < 8) {
      plain += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

// The process's group in the hierarchy of `controller`. If /proc lists a controller under version 1, version 1 is used,
// because /proc does this only for controllers that version 1 manages.
std::optional<Membership> FindMembership(const std::string& controller, const std::string& root, pid_t pid) {
  std::ifstream lines(root + "/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/cgroup");
  std::optional<Membership> version_2;
  // examples of lines: "0::/user.slice/session-3.scope", "4:memory:/docker/6f...", "2:cpu,cpuacct:/"
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) version_2 = Membership{true, "", path};
    if (IsInList(controllers, controller)) return Membership{false, controllers, path};
  }
  return version_2;
}

// Reads mountinfo. Example of a line: "35 31 0:32 /docker/6f /sys/fs/cgroup/memory rw,relatime - cgroup cgroup
// rw,memory".
std::vector<Mount> FindMounts(bool version_2, const std::string& controller, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream lines(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skipped, group, folder, type, options;
    before >> skipped >> skipped >> skipped >> group >> folder;
    after >> type >> skipped >> options;
    if (version_2 ? type == "cgroup2" : type == "cgroup" && IsInList(options, controller))
      mounts.push_back({Unescaped(group), Unescaped(folder)});
  }
  return mounts;
}

// The usual mount of a hierarchy, used if /proc lists none.
Mount UsualMount(const Membership& membership, const std::string& controller, const std::string& root) {
  const std::string groups = "/sys/fs/cgroup";
  if (membership.version_2) return {"/", groups};
  const std::string together = groups + "/" + membership.controllers;  // cpu,cpuacct
  return {"/", Exists(root + together) ? together : groups + "/" + controller};
}

// The group's path below the mount point; "" for the group at the mount point; nullopt: the group is not below the
// mount point.
std::optional<std::string> PathBelow(const Mount& mount, const std::string& path) {
  const std::string top = mount.group == "/" ? "" : mount.group;
  if (!path.starts_with(top) || (path.size() > top.size() && path[top.size()] != '/')) return std::nullopt;
  std::string below = path.substr(top.size());
  if (below == "/") below.clear();
  // In a cgroup namespace, the path of a process outside of the namespace contains "/..".
  if (below.find("/..") != std::string::npos) return std::nullopt;
  return below;
}

template <typename Take>
void ForEachPair(const std::string& path, const Take& take) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  for (std::string name; file >> name >> value;) take(name, value);
}

// nullopt: the file does not exist, or its content is not a number ("max", for example).
std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> ReadPair(const std::string& path, std::string_view wanted) {
  std::optional<std::uint64_t> found;
  ForEachPair(path, [&](const std::string& name, std::uint64_t value) {
    if (name == wanted) found = value;
  });
  return found;
}

}  // namespace

std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& root, pid_t pid) {
  std::vector<std::string> folders;
  auto membership = FindMembership(controller, root, pid);
  if (!membership) {
    if (Exists(root + "/proc/self/cgroup")) return folders;
    membership = Membership{!Exists(root + "/sys/fs/cgroup/" + controller), controller, "/"};
  }
  std::vector<Mount> mounts = FindMounts(membership->version_2, controller, root);
  if (mounts.empty()) mounts.push_back(UsualMount(*membership, controller, root));
  const auto holds = [&](const Mount& mount) { return PathBelow(mount, membership->path).has_value(); };
  const auto found = std::find_if(mounts.begin(), mounts.end(), holds);
  const Mount& mount = found == mounts.end() ? mounts.front() : *found;
  // A container may see no folder for the process's own group, although it sees folders of the enclosing groups.
  std::string path = PathBelow(mount, membership->path).value_or("");
  while (true) {
    if (Exists(root + mount.folder + path)) folders.push_back(mount.folder + path);
    if (path.empty()) return folders;
    path.resize(path.find_last_of('/'));
  }
}

std::optional<std::uint64_t> MemoryCgroup::left_bytes() const {
  if (!limit_bytes) return std::nullopt;
  const std::uint64_t kept = usage_bytes - std::min(usage_bytes, reclaimable_bytes);
  return *limit_bytes - std::min(*limit_bytes, kept);
}

std::optional<MemoryCgroup> ReadMemoryCgroup(const std::string& folder, const std::string& root) {
  const std::string files = root + folder + "/memory.";
  const bool version_2 = Exists(files + "current");
  const auto usage = ReadNumber(files + (version_2 ? "current" : "usage_in_bytes"));
  if (!usage) return std::nullopt;
  MemoryCgroup group{.folder = folder, .limit_bytes = {}, .usage_bytes = *usage};
  group.limit_bytes = ReadNumber(files + (version_2 ? "max" : "limit_in_bytes"));
  if (group.limit_bytes >= kNoLimit) group.limit_bytes.reset();
  // The usage includes the groups below this one, so the values that are read here must include them, too. In version 1
  // only the values named "total_..." include these groups; in version 2 all values do.
  const std::string prefix = version_2 ? "" : "total_";
  ForEachPair(files + "stat", [&](const std::string& name, std::uint64_t value) {
    if (name == prefix + "active_file" || name == prefix + "inactive_file") group.reclaimable_bytes += value;
  });
  group.peak_bytes = ReadNumber(files + (version_2 ? "peak" : "max_usage_in_bytes"));
  group.oom_kills = ReadPair(files + (version_2 ? "events" : "oom_control"), "oom_kill");
  return group;
}

std::optional<std::uint64_t> MachineOomKills(const std::string& root) {
  return ReadPair(root + "/proc/vmstat", "oom_kill");
}

std::vector<MemoryCgroup> MemoryCgroups(const std::string& root, pid_t pid) {
  std::vector<MemoryCgroup> groups;
  for (const std::string& folder : CgroupFolders("memory", root, pid)) {
    // Before kernel 5.11 a group of version 1 could be configured not to count the groups below it.
    if (!groups.empty() && ReadNumber(root + folder + "/memory.use_hierarchy") == std::uint64_t{0}) break;
    if (auto group = ReadMemoryCgroup(folder, root)) groups.push_back(*std::move(group));
  }
  return groups;
}

std::vector<TaskCgroup> TaskCgroups(const std::string& root, pid_t pid) {
  std::vector<TaskCgroup> groups;
  for (const std::string& folder : CgroupFolders("pids", root, pid)) {
    const auto limit = ReadNumber(root + folder + "/pids.max");
    const auto used = ReadNumber(root + folder + "/pids.current");
    if (limit && used) groups.push_back({.folder = folder, .limit = *limit, .used = *used});
  }
  return groups;
}

const MemoryCgroup* TightestOf(const std::vector<MemoryCgroup>& groups) {
  const MemoryCgroup* tightest = nullptr;
  for (const MemoryCgroup& group : groups)
    if (group.limit_bytes && (tightest == nullptr || *group.left_bytes() < *tightest->left_bytes())) tightest = &group;
  return tightest;
}

}  // namespace rondo
