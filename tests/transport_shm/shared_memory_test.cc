// Memory that processes share: what may be taken of it, how it is taken, and what is no such memory.
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

// As older kernels do when a signal comes: so many of the next calls.
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

// A machine's /proc and /sys as far as they are looked at.
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

TEST_CASE("what a control group has of files is there to be taken, for it is given back when it is wanted") {
  Machine machine;
  machine.File("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8388608 kB\n");
  CHECK(MemoryLeft(machine.root()).bytes == 8192 * kMiB);
  const std::string group = "sys/fs/cgroup/";
  machine.File(group + "memory.max", "1073741824").File(group + "memory.current", "1073676288");
  CHECK(MemoryLeft(machine.root()).bytes == 65536);
  machine.File(group + "memory.stat",
               "anon 100000000\nfile 973676288\nshmem 30000000\ninactive_file 800000000\n"
               "active_file 143676288\n");
  const Room room = MemoryLeft(machine.root());
  CHECK(room.bytes == 65536 + 943676288);
  CHECK(room.why.find("memory.max") != std::string::npos);
  machine.File(group + "memory.max", "max");
  CHECK(MemoryLeft(machine.root()).bytes == 8192 * kMiB);
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
