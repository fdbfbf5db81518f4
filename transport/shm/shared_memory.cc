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

#include "base/cgroup.h"
#include "base/net/descriptors.h"

namespace rondo::shm {
namespace {

// The arguments of this message: what the memory is for, the bytes that it needs, and the available memory.
constexpr const char* kTooLittle =
    "{} needs {} bytes of shared memory, but {}. Give the job more memory, or let ranks of one host use TCP "
    "(--transport tcp)";

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Up to this size Make always tries to allocate, because the machine's figure for free memory is only an estimate. A
// virtual machine whose memory grows on demand may report for a moment that it has none.
constexpr std::uint64_t kAlwaysThere = 16 << 20;

// The largest part of a control group's limit that is reserved for the processes' own memory. It also covers ranks that
// allocate at the same moment and do not see each other's allocations.
constexpr std::uint64_t kMaxKeptBytes = 256 << 20;
std::uint64_t KeptOf(std::uint64_t limit) { return std::min(limit / 2, kMaxKeptBytes); }

std::string MiB(std::uint64_t bytes) { return fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20)); }

// Allocates the memory piece by piece. If a signal arrives during a call, kernels before 6.10 undo all that this call
// has allocated. So the pieces become smaller after each signal.
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
  Room room{.why = "how much memory is left is not known: /proc/meminfo cannot be read"};
  std::ifstream machine(root + "/proc/meminfo");
  for (std::string word; machine >> word;) {
    if (word != "MemAvailable:") continue;
    std::uint64_t kibibytes = 0;
    if (machine >> kibibytes)
      room = {std::max(kibibytes * 1024, kAlwaysThere), fmt::format("the machine has {} KiB available", kibibytes)};
    break;
  }
  for (const MemoryCgroup& group : MemoryCgroups(root)) {
    std::uint64_t limit = group.limit_bytes.value_or(Room::kUnknown), high = 0;
    // memory.high counts as a limit, because above it the kernel slows processes down.
    if (std::ifstream(root + group.folder + "/memory.high") >> high) limit = std::min(limit, high);
    if (limit == Room::kUnknown) continue;
    const std::uint64_t used = group.usage_bytes - std::min(group.usage_bytes, group.reclaimable_bytes);
    const std::uint64_t taken = std::min(limit, used + KeptOf(limit));
    if (limit - taken >= room.bytes) continue;
    room = {
        limit - taken,
        fmt::format("control group {} allows {}, of which {} are used and {} are kept for its processes' own memory",
                    group.folder, MiB(limit), MiB(used), MiB(KeptOf(limit))),
        /*is_of_a_group=*/true};
  }
  return room;
}

Result<SharedMemory> SharedMemory::Make(std::string_view what, std::size_t bytes) {
  // Above this limit the kernel would kill the process by SIGXFSZ.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return Fail(ErrorCode::kResource,
                "{} needs {} bytes of shared memory, but files of this process may have at most {} (RLIMIT_FSIZE). "
                "Raise that limit (ulimit -f), or let ranks of one host use TCP (--transport tcp)",
                what, bytes, limit.rlim_cur);
  const Room room = MemoryLeft();
  if (bytes > room.bytes) return Fail(ErrorCode::kResource, kTooLittle, what, bytes, room.why);
  Fd fd(memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Fail(ErrorCode::kResource, "no shared memory for {}: {}", what, SystemWords(errno));
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
  const int seals = fcntl(fd.get(), F_GET_SEALS);  // -1: this kind of file cannot have seals
  if (fstat(fd.get(), &status) != 0 || seals < 0 || (seals & kSeals) != kSeals)
    return Fail(ErrorCode::kProtocol, "the received file descriptor is not sealed shared memory");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < least || bytes > most)
    return Fail(ErrorCode::kProtocol, "the received shared memory has {} bytes; expected {} to {}", bytes, least, most);
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
