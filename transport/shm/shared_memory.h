// Anonymous memory that processes share by its descriptor.
//
// It has no name that a dead process could leave behind. Its size is sealed and its pages are allocated when it is
// made. So touching it later never raises SIGBUS: no process can cut it short, and the machine cannot run out of memory
// for it. If there is too little memory, Make returns a typed error.
//
// Thread rule: one thread at a time moves the object; the protocol that uses the memory says who writes it.
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
  bool is_of_a_group = false;  // a control group sets the limit, not the machine
};
// The memory that ranks may share now, according to the machine and to the control groups around this process
// (base/cgroup.h), as far as they can be read. The kernel would give more, and kill a process of the group when its
// limit is reached. So a part of a group's limit is kept for the processes' own memory, which grows later, and for TCP.
// `root`: the folder that holds /proc and /sys.
Room MemoryLeft(const std::string& root = "");

class SharedMemory {
 public:
  SharedMemory() = default;  // none
  // Zeroed. `what` names the user of the memory in errors. kResource: no descriptor, or too little memory; the message
  // says which limit, how much is needed, how much there is, and the remedy.
  static Result<SharedMemory> Make(std::string_view what, std::size_t bytes);
  // Maps memory that a peer made. kProtocol: it is not sealed, or not of `least` to `most` bytes. kResource: it cannot
  // be mapped.
  static Result<SharedMemory> Map(Fd fd, std::size_t least, std::size_t most, Access access = Access::kWrite);

  SharedMemory(SharedMemory&& other) noexcept { Swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~SharedMemory();

  MutableBytes bytes() const { return bytes_; }
  // The descriptor, to be passed on. ForgetFd closes it afterwards; the mapping stays.
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
