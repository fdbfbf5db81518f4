// Tests the detection of ranks that the kernel killed because memory ran out, with control groups of version 1 and
// version 2.
#include "tools/run/oom_watch.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "tests/support/file_tree.h"

namespace rondo {
namespace oom_watch_test {

using testing::FileTree;

const std::string kGroup1 = "/sys/fs/cgroup/memory/job", kGroup2 = "/sys/fs/cgroup/job";
constexpr ExitStatus kKilled{0, SIGKILL};
constexpr pid_t kPid = 7, kOther = 8;

// A machine with two ranks in one control group of version 1.
class Version1 : public FileTree {
 public:
  Version1() {
    for (const std::string pid : {"self", "7", "8"}) File("/proc/" + pid + "/cgroup", "4:memory:/job\n0::/");
    File(kGroup1 + "/memory.limit_in_bytes", "167772160").File(kGroup1 + "/memory.usage_in_bytes", "1000000");
    File(kGroup1 + "/memory.max_usage_in_bytes", "167772160");
    File("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
        .File("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5");
    Kills(4);
  }
  void Kills(int count) {
    File(kGroup1 + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(count));
  }
};

TEST_CASE("A rank killed for memory is reported with limit, group and peak: control groups of version 1") {
  Version1 machine;
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  machine.Kills(5);
  CHECK(watch.Explain(0, kKilled) ==
        "was killed by the kernel: out of memory (limit 160 MiB of cgroup /sys/fs/cgroup/memory/job, peak 160 MiB)");
}

TEST_CASE("A rank killed for memory is reported with limit, group and peak: version 2, by the limit around its group") {
  FileTree machine;
  machine.File("/proc/7/cgroup", "0::/job/step");
  machine.File(kGroup2 + "/memory.max", "167772160").File(kGroup2 + "/memory.current", "1000000");
  machine.File(kGroup2 + "/memory.peak", "167772160").File(kGroup2 + "/memory.events", "oom_kill 0");
  const std::string step = kGroup2 + "/step";
  machine.File(step + "/memory.max", "1073741824").File(step + "/memory.current", "900000");
  machine.File(step + "/memory.peak", "167000000").File(step + "/memory.events", "oom_kill 0");
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  CHECK(watch.Explain(0, kKilled) == "");
  machine.File(step + "/memory.events", "low 0\nmax 17\noom 1\noom_kill 1");
  CHECK(watch.Explain(0, kKilled) ==
        "was killed by the kernel: out of memory (limit 160 MiB of cgroup /sys/fs/cgroup/job, peak 160 MiB)");
}

TEST_CASE("A rank killed by another process is not reported as out of memory, though memory once ran out") {
  Version1 machine;
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  CHECK(watch.Explain(0, kKilled) == "");
  CHECK(watch.Explain(0, ExitStatus{0, 0}) == "");
}

TEST_CASE("One kill for memory explains one rank's end") {
  Version1 machine;
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  watch.Look(1, kOther);
  machine.Kills(5);
  CHECK(watch.Explain(1, kKilled) != "");
  CHECK(watch.Explain(0, kKilled) == "");
}

TEST_CASE("A rank whose child was killed for memory says its own end and that") {
  Version1 machine;
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  machine.Kills(5);
  CHECK(watch.Explain(0, ExitStatus{137, 0}).rfind("exited with code 137; meanwhile the kernel killed a process", 0) ==
        0);
}

TEST_CASE("A rank that went into a group of its own is judged by that group") {
  Version1 machine;
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  machine.File("/proc/7/cgroup", "4:memory:/job/own");
  machine.File(kGroup1 + "/own/memory.limit_in_bytes", "1048576").File(kGroup1 + "/own/memory.usage_in_bytes", "1");
  machine.File(kGroup1 + "/own/memory.max_usage_in_bytes", "1048576");
  machine.File(kGroup1 + "/own/memory.oom_control", "oom_kill 0");
  watch.Look(0, kPid);
  machine.File("/proc/7/cgroup", "4:memory:/");  // the contents for a process that has ended
  watch.Look(0, kPid);
  machine.File(kGroup1 + "/own/memory.oom_control", "oom_kill 1");
  CHECK(watch.Explain(0, kKilled).find("limit 1 MiB of cgroup " + kGroup1 + "/own") != std::string::npos);
}

TEST_CASE("Without control groups the machine's own count is reported beside the signal") {
  FileTree machine;
  machine.File("/proc/vmstat", "oom_kill 1");
  OomWatch watch(machine.root());
  watch.Look(0, kPid);
  CHECK(watch.Explain(0, kKilled) == "");
  machine.File("/proc/vmstat", "oom_kill 2");
  CHECK(watch.Explain(0, kKilled).rfind("was killed by SIGKILL; meanwhile the kernel killed a process of this", 0) ==
        0);
}

}  // namespace oom_watch_test
}  // namespace rondo
