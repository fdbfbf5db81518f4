// Tests the error texts for the case that a limit forbids a new thread or process.
#include "base/tasks.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

#include "base/cgroup.h"
#include "tests/support/file_tree.h"

namespace rondo {
namespace tasks_test {

using testing::FileTree;

const std::string kPids = "/sys/fs/cgroup/pids";
const std::string kMount = "35 31 0:32 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids";

TEST_CASE("a start that a limit on processes forbids says need, limit, use and remedy; another failure only itself") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "4:pids:/job/step\n0::/").File("/proc/self/mountinfo", kMount);
  tree.File(kPids + "/pids.current", "300");
  tree.File(kPids + "/job/pids.max", "12").File(kPids + "/job/pids.current", "11");
  tree.File(kPids + "/job/step/pids.max", "max").File(kPids + "/job/step/pids.current", "3");
  const auto groups = TaskCgroups(tree.root());
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].folder == kPids + "/job");
  CHECK(groups[0].limit == 12);
  CHECK(groups[0].used == 11);

  const std::string words = TaskWords(EAGAIN, tree.root());
  CAPTURE(words);
  CHECK(words.find("it takes 1 more process or thread") != std::string::npos);
  CHECK(words.find("control group /sys/fs/cgroup/pids/job allows 12 processes and threads (pids.max) and has 11") !=
        std::string::npos);
  CHECK(words.find("raise the limit or start fewer ranks") != std::string::npos);
  CHECK(TaskWords(ENOMEM, tree.root()) == "Cannot allocate memory");
}

TEST_CASE("a start that fails without a limit that the process can see names those of the system") {
  FileTree tree;
  tree.File("/proc/self/cgroup", "4:pids:/\n0::/").File("/proc/self/mountinfo", kMount);
  const std::string words = TaskWords(EAGAIN, tree.root());
  CAPTURE(words);
  const bool user = words.find("ulimit -u") != std::string::npos;  // a limit may apply to the user who runs this test
  CHECK((user || words.find("kernel.threads-max") != std::string::npos));
}

}  // namespace tasks_test
}  // namespace rondo
