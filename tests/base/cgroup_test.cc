// Tests the reading of control groups, from trees of files that look like those of kernels with version 1 and version
// 2.
#include "base/cgroup.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/file_tree.h"

namespace rondo {
namespace cgroup_test {

using testing::FileTree;

const std::string kGroups = "/sys/fs/cgroup";
const std::string kVersion1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
const std::string kVersion2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";

TEST_CASE("version 2: a process has the limits of its own group and of all groups around it") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "0::/job.slice/step.scope").File("/proc/self/mountinfo", kVersion2);
  tree.File(kGroups + "/cgroup.controllers", "memory pids");
  tree.File(kGroups + "/job.slice/memory.max", "167772160")
      .File(kGroups + "/job.slice/memory.current", "150000000")
      .File(kGroups + "/job.slice/memory.peak", "167000000")
      .File(kGroups + "/job.slice/memory.stat",
            "anon 1\nfile 40000000\nshmem 9\ninactive_file 20000000\nactive_file 5000000")
      .File(kGroups + "/job.slice/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0");
  tree.File(kGroups + "/job.slice/step.scope/memory.max", "max")
      .File(kGroups + "/job.slice/step.scope/memory.current", "140000000");
  const std::vector<MemoryCgroup> groups = MemoryCgroups(tree.root());
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].folder == kGroups + "/job.slice/step.scope");
  CHECK(groups[0].usage_bytes == 140000000);
  CHECK(!groups[0].limit_bytes);
  CHECK(!groups[0].left_bytes());
  CHECK(!groups[0].peak_bytes);
  CHECK(!groups[0].oom_kills);
  CHECK(groups[1].limit_bytes == 167772160);
  CHECK(groups[1].reclaimable_bytes == 25000000);
  CHECK(groups[1].left_bytes() == 167772160 - 125000000);
  CHECK(groups[1].peak_bytes == 167000000);
  CHECK(groups[1].oom_kills == 2);
  CHECK(TightestOf(groups) == &groups[1]);
}

TEST_CASE("version 1: a process has the limits of its own group and of all groups around it") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/step\n0::/").File("/proc/self/mountinfo", kVersion1);
  const std::string memory = kGroups + "/memory";
  tree.File(memory + "/memory.limit_in_bytes", "9223372036854771712")
      .File(memory + "/memory.usage_in_bytes", "900000000");
  tree.File(memory + "/job/memory.limit_in_bytes", "167772160")
      .File(memory + "/job/memory.usage_in_bytes", "160000000")
      .File(memory + "/job/memory.max_usage_in_bytes", "167772160")
      .File(memory + "/job/memory.stat",
            "inactive_file 1\nactive_file 2\ntotal_inactive_file 10000000\ntotal_active_file 0");
  tree.File(memory + "/job/step/memory.limit_in_bytes", "1073741824")
      .File(memory + "/job/step/memory.usage_in_bytes", "100000000")
      .File(memory + "/job/step/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1");
  const std::vector<MemoryCgroup> groups = MemoryCgroups(tree.root());
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].limit_bytes == 1073741824);
  CHECK(groups[0].oom_kills == 1);
  CHECK(groups[1].left_bytes() == 17772160);
  CHECK(groups[1].peak_bytes == 167772160);
  CHECK(!groups[2].limit_bytes);
  CHECK(TightestOf(groups) == &groups[1]);
}

TEST_CASE("version 1: a group that does not count the groups below it does not limit them") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "4:memory:/job/step").File("/proc/self/mountinfo", kVersion1);
  const std::string memory = kGroups + "/memory";
  tree.File(memory + "/job/memory.limit_in_bytes", "1000")
      .File(memory + "/job/memory.usage_in_bytes", "1000")
      .File(memory + "/job/memory.use_hierarchy", "0");
  tree.File(memory + "/job/step/memory.limit_in_bytes", "5000").File(memory + "/job/step/memory.usage_in_bytes", "10");
  const std::vector<MemoryCgroup> groups = MemoryCgroups(tree.root());
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].limit_bytes == 5000);
}

TEST_CASE("a container that sees its own group at the mount point has the limit there") {
  for (const bool knows_mount : {true, false}) {
    FileTree tree;
    tree.File("/proc/self/cgroup", "4:memory:/docker/6f\\x2d");
    if (knows_mount)
      tree.File("/proc/self/mountinfo",
                "35 31 0:32 /docker/6f\\134x2d /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory");
    tree.File(kGroups + "/memory/memory.limit_in_bytes", "5000")
        .File(kGroups + "/memory/memory.usage_in_bytes", "6000");
    const std::vector<MemoryCgroup> groups = MemoryCgroups(tree.root());
    REQUIRE(groups.size() == 1);
    CHECK(groups[0].folder == kGroups + "/memory");
    CHECK(groups[0].left_bytes() == 0);
  }
}

TEST_CASE("a hierarchy that is mounted elsewhere is found there") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "4:cpu,memory:/\n0::/a")
      .File("/proc/self/mountinfo",
            "35 31 0:32 / /groups rw - cgroup cgroup rw,cpu,memory\n"
            "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  tree.File("/groups/memory.limit_in_bytes", "7000").File("/groups/memory.usage_in_bytes", "0");
  CHECK(CgroupFolders("memory", tree.root()) == std::vector<std::string>{"/groups"});
  CHECK(CgroupFolders("cpu", tree.root()) == std::vector<std::string>{"/groups"});
  tree.File("/sys/fs/cgroup/unified/a/pids.max", "3");
  CHECK(CgroupFolders("pids", tree.root()).front() == "/sys/fs/cgroup/unified/a");
}

TEST_CASE("a process outside of our cgroup namespace is looked for in no folder above the mount point") {
  FileTree tree;
  tree.File("/proc/7/cgroup", "0::/../other").File("/proc/self/mountinfo", kVersion2);
  tree.File("/sys/fs/other/memory.max", "1").File(kGroups + "/cgroup.controllers", "memory");
  CHECK(CgroupFolders("memory", tree.root(), 7) == std::vector<std::string>{kGroups});
}

TEST_CASE("another process has groups of its own, and one that has ended has none") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "0::/mine").File("/proc/7/cgroup", "0::/theirs");
  for (const std::string name : {"/mine", "/theirs"})
    tree.File(kGroups + name + "/memory.max", "100").File(kGroups + name + "/memory.current", "1");
  REQUIRE(MemoryCgroups(tree.root(), 7).size() == 1);
  CHECK(MemoryCgroups(tree.root(), 7)[0].folder == kGroups + "/theirs");
  CHECK(MemoryCgroups(tree.root(), 8).empty());
}

TEST_CASE("without /proc the group at the usual mount point is taken, of either version") {
  FileTree version_1, version_2, neither;
  version_1.File(kGroups + "/memory/memory.limit_in_bytes", "100").File(kGroups + "/memory/memory.usage_in_bytes", "1");
  version_2.File(kGroups + "/memory.max", "200").File(kGroups + "/memory.current", "1");
  REQUIRE(MemoryCgroups(version_1.root()).size() == 1);
  CHECK(MemoryCgroups(version_1.root())[0].limit_bytes == 100);
  REQUIRE(MemoryCgroups(version_2.root()).size() == 1);
  CHECK(MemoryCgroups(version_2.root())[0].limit_bytes == 200);
  CHECK(MemoryCgroups(neither.root()).empty());
  CHECK(!MachineOomKills(neither.root()));
  neither.File("/proc/vmstat", "nr_free_pages 7\noom_kill 3\nnuma_hit 9");
  CHECK(MachineOomKills(neither.root()) == 3);
  CHECK(TightestOf({}) == nullptr);
}

}  // namespace cgroup_test
}  // namespace rondo
