#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace rondo::shm {
namespace {

// What needs it, how many bytes, what there is.
constexpr const char* kTooLittle =
    "{} needs {} bytes of shared memory: {}. Give the job more memory, or let ranks of one host talk over TCP "
    "(--transport tcp)";

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The machine's word is an estimate, of which that much is no matter; and a virtual machine that grows with what is
// used says for moments that it has nothing.
constexpr std::uint64_t kAlwaysThere = 16 << 20;

// Kernels before 6.10 undo what they have taken so far when any signal comes: so in pieces, and in smaller ones the
// more signals come.
bool Take(int fd, std::size_t bytes) {
  constexpr std::size_t kLeast = 64 << 10;
  std::size_t piece = 8 << 20;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t next = std::min(piece, bytes - at);
    if (fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(next)) == 0) {
      at += next;
    } else if (errno == EINTR) {
      piece = std::max(piece / 2, kLeast);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

Room MemoryLeft(const std::string& root) {
  Room room;
  std::ifstream machine(root + "/proc/meminfo");
  for (std::string word; machine >> word;) {
    if (word != "MemAvailable:") continue;
    std::uint64_t kibibytes = 0;
    if (machine >> kibibytes)
      room = {std::max(kibibytes * 1024, kAlwaysThere), fmt::format("the machine has {} KiB available", kibibytes)};
    break;
  }
  const std::string group = root + "/sys/fs/cgroup/";
  std::uint64_t most = 0, used = 0;
  std::ifstream limit(group + "memory.max"), current(group + "memory.current");
  if (!(limit >> most) || !(current >> used)) return room;
  // What files were read from or written to is given back when it is wanted.
  std::ifstream stat(group + "memory.stat");
  std::uint64_t bytes = 0, cached = 0;
  for (std::string name; stat >> name >> bytes;)
    if (name == "active_file" || name == "inactive_file") cached += bytes;
  used -= std::min(used, cached);
  if (most - std::min(most, used) < room.bytes)
    room = {most - std::min(most, used),
            fmt::format("its control group allows {} bytes (memory.max), of which {} are used", most, used)};
  return room;
}

Result<SharedMemory> SharedMemory::Make(std::string_view what, std::size_t bytes) {
  // Beyond it the kernel would end the process by SIGXFSZ.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return Fail(ErrorCode::kResource,
                "{} needs {} bytes of shared memory, but files of this process may have {} (RLIMIT_FSIZE). Raise it "
                "(ulimit -f), or let ranks of one host talk over TCP (--transport tcp)",
                what, bytes, limit.rlim_cur);
  const Room room = MemoryLeft();
  if (bytes > room.bytes) return Fail(ErrorCode::kResource, kTooLittle, what, bytes, room.why);
  Fd fd(memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Fail(ErrorCode::kResource, "no shared memory for {}: {}", what, std::strerror(errno));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || !Take(fd.get(), bytes)) {
    const int error = errno;
    return Fail(ErrorCode::kResource, kTooLittle, what, bytes,
                fmt::format("{}; {}", std::strerror(error), MemoryLeft().why));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return Fail(ErrorCode::kResource, "shared memory for {} cannot be sealed: {}", what, std::strerror(errno));
  return MapAll(std::move(fd), bytes, Access::kWrite);
}

Result<SharedMemory> SharedMemory::Map(Fd fd, std::size_t least, std::size_t most, Access access) {
  struct stat status {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);  // -1 of what can have none
  if (fstat(fd.get(), &status) != 0 || seals < 0 || (seals & kSeals) != kSeals)
    return Fail(ErrorCode::kProtocol, "what came for shared memory is none, or not sealed");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < least || bytes > most)
    return Fail(ErrorCode::kProtocol, "what came for shared memory has {} bytes, not {} to {}", bytes, least, most);
  return MapAll(std::move(fd), bytes, access);
}

Result<SharedMemory> SharedMemory::MapAll(Fd fd, std::size_t bytes, Access access) {
  void* const base = mmap(nullptr, bytes, access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (base == MAP_FAILED)
    return Fail(ErrorCode::kResource, "{} bytes of shared memory cannot be mapped: {}", bytes, std::strerror(errno));
  return SharedMemory(std::move(fd), MutableBytes(static_cast<std::byte*>(base), bytes));
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace rondo::shm
