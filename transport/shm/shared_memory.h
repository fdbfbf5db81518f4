// Anonymous memory that processes share by passing its descriptor.
//
// It has no name, so a dead process leaves nothing behind. When it is made, its size is sealed and its pages are
// allocated. So later accesses never raise SIGBUS, because no process can shrink it, and the machine cannot run out of
// memory for it. If there is too little memory, Make returns a typed error.
//
// Thread rule: one thread at a time uses the object. The protocol that uses the memory says who writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/net/fd.h"
#include "base/result.h"

namespace rondo::shm {

enum class Access : bool { kRead, kWrite };

struct Room {
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes = kUnknown;
  std::string why;             // for messages
  bool is_of_a_group = false;  // true: a control group sets the limit; false: the machine does
};
// How much memory ranks can share now, as far as the limits of the machine and of this process's control groups
// (base/cgroup.h) can be read. The kernel would allocate more, and then kill a process of the group when the group
// reaches its limit. So a part of the group's limit is reserved for the processes' own memory, which grows later, and
// for TCP. `root`: the folder that contains /proc and /sys.
Room MemoryLeft(const std::string& root = "");

class SharedMemory {
 public:
  SharedMemory() = default;  // has no memory
  // Makes zeroed memory. `what` says in errors what the memory is for. kResource: no descriptor is left, or too little
  // memory; the message names the limit, the needed bytes, the available bytes, and the remedy.
  static Result<SharedMemory> Make(std::string_view what, std::size_t bytes);
  // Maps memory that a peer made. kProtocol: the memory is not sealed, or its size is not between `least` and `most`
  // bytes. kResource: it cannot be mapped.
  static Result<SharedMemory> Map(Fd fd, std::size_t least, std::size_t most, Access access = Access::kWrite);

  SharedMemory(SharedMemory&& other) noexcept { Swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~SharedMemory();

  MutableBytes bytes() const { return bytes_; }
  // The descriptor, for passing it to other processes. ForgetFd closes the descriptor; the mapping stays.
  int fd() const { return fd_.get(); }
  void ForgetFd() { fd_.Close(); }

 private:
  SharedMemory(Fd fd, MutableBytes bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<SharedMemory> MapAll(Fd fd, std::size_t bytes, Access access);
  void Swap(SharedMemory& other) {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
  }

  Fd fd_;
  MutableBytes bytes_;
};

}  // namespace rondo::shm
