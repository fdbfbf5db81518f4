// Tests memory that processes share: how much may be allocated, how it is allocated, and which files are refused.
#include "transport/shm/shared_memory.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/own_places.h"

namespace {

// How many of the next calls of fallocate fail with EINTR, as in older kernels when a signal arrives.
int interruptions = 0;

}  // namespace

extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (interruptions > 0) {
    --interruptions;
    errno = EINTR;
    return -1;
  }
  static auto* const next = reinterpret_cast<decltype(&fallocate)>(dlsym(RTLD_NEXT, "fallocate"));
  return next(fd, mode, offset, bytes);
}

namespace rondo::shm {
namespace shared_memory_test {

constexpr std::uint64_t kMiB = 1 << 20;

// The files of /proc and /sys of an invented machine.
class Machine {
 public:
  Machine& File(const std::string& name, std::string_view text) {
    const std::filesystem::path path = root() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return *this;
  }
  std::string root() const { return folder_.File("root"); }

 private:
  TemporaryDirectory folder_;
};

constexpr const char* kMeminfo = "MemTotal: 9000000 kB\nMemAvailable: 8388608 kB\n";

TEST_CASE("what a control group has of files is there to be taken, for it is given back when it is wanted") {
  Machine machine;
  machine.File("proc/meminfo", kMeminfo).File("proc/self/cgroup", "0::/\n");
  CHECK(MemoryLeft(machine.root()).bytes == 8192 * kMiB);
  const std::string group = "sys/fs/cgroup/";
  machine.File(group + "memory.max", "1073741824").File(group + "memory.current", "1073676288");
  CHECK(MemoryLeft(machine.root()).bytes == 0);
  machine.File(group + "memory.stat",
               "anon 100000000\nfile 973676288\nshmem 30000000\ninactive_file 800000000\n"
               "active_file 143676288\n");
  CHECK(MemoryLeft(machine.root()).bytes == 65536 + 943676288 - 256 * kMiB);
  machine.File(group + "memory.max", "max");
  CHECK(MemoryLeft(machine.root()).bytes == 8192 * kMiB);
}

TEST_CASE("of a control group's limit half, or 256 MiB, are left to its processes' own memory") {
  for (const std::uint64_t limit : {160 * kMiB, 4096 * kMiB}) {
    Machine machine;
    machine.File("proc/meminfo", kMeminfo).File("proc/self/cgroup", "4:memory:/job\n");
    const std::string group = "sys/fs/cgroup/memory/job/memory.";
    machine.File(group + "limit_in_bytes", std::to_string(limit)).File(group + "usage_in_bytes", "41943040");
    const Room room = MemoryLeft(machine.root());
    CHECK(room.is_of_a_group);
    CHECK(room.bytes == limit - 40 * kMiB - (limit == 160 * kMiB ? 80 : 256) * kMiB);
    if (limit == 160 * kMiB)
      CHECK(room.why ==
            "control group /sys/fs/cgroup/memory/job allows 160 MiB, of which 40 MiB are used and 80 MiB are kept for "
            "its processes' own memory");
  }
}

TEST_CASE("the control group of the process itself counts, of either version, and the tightest one around it") {
  Machine machine;
  machine.File("proc/meminfo", kMeminfo).File("proc/self/cgroup", "0::/pod/container\n");
  const std::string pod = "sys/fs/cgroup/pod/memory.", container = "sys/fs/cgroup/pod/container/memory.";
  machine.File("sys/fs/cgroup/cgroup.controllers", "memory");
  machine.File(pod + "max", std::to_string(1024 * kMiB)).File(pod + "current", std::to_string(700 * kMiB));
  machine.File(container + "max", std::to_string(800 * kMiB)).File(container + "current", std::to_string(10 * kMiB));
  const Room room = MemoryLeft(machine.root());
  CHECK(room.bytes == (1024 - 700 - 256) * kMiB);
  CHECK(room.why.find("/sys/fs/cgroup/pod allows 1024 MiB") != std::string::npos);
}

TEST_CASE("a limit beyond which the kernel makes processes wait counts as one") {
  Machine machine;
  machine.File("proc/meminfo", kMeminfo).File("proc/self/cgroup", "0::/unit\n");
  const std::string unit = "sys/fs/cgroup/unit/memory.";
  machine.File("sys/fs/cgroup/cgroup.controllers", "memory");
  machine.File(unit + "max", "max").File(unit + "high", std::to_string(100 * kMiB)).File(unit + "current", "0");
  CHECK(MemoryLeft(machine.root()).bytes == 50 * kMiB);
  machine.File(unit + "high", "max");
  CHECK(!MemoryLeft(machine.root()).is_of_a_group);
}

TEST_CASE("where /proc cannot be read, no limit is known, and that is said") {
  const Machine machine;
  const Room room = MemoryLeft(machine.root());
  CHECK(room.bytes == Room::kUnknown);
  CHECK(room.why == "how much memory is left is not known: /proc/meminfo cannot be read");
}

TEST_CASE("memory is taken whatever signals come meanwhile") {
  interruptions = 3;
  const auto memory = SharedMemory::Make("a test", 20 * kMiB);
  REQUIRE_MESSAGE(memory.has_value(), memory.error().ToString());
  CHECK(interruptions == 0);
  CHECK(memory->bytes().size() == 20 * kMiB);
}

TEST_CASE("a file is no shared memory, whatever its size: it could be cut short") {
  const auto memory = SharedMemory::Make("a test", 8192);
  REQUIRE(memory);
  CHECK(SharedMemory::Map(Fd(dup(memory->fd())), 4096, kMiB));
  const TemporaryDirectory folder;
  std::ofstream(folder.File("file")) << std::string(8192, 'x');
  const auto mapped = SharedMemory::Map(Fd(open(folder.File("file").c_str(), O_RDWR | O_CLOEXEC)), 4096, kMiB);
  REQUIRE(!mapped);
  CHECK(mapped.error().code() == ErrorCode::kProtocol);
}

}  // namespace shared_memory_test
}  // namespace rondo::shm
