// Anonymous memory that processes share by its descriptor.
//
// No name is left behind whoever dies when. Its size is sealed and its pages are taken when it is made: touching it
// later can fault for no reason (SIGBUS), neither because somebody cut it short nor because the machine has run out of
// shared memory; what is lacking is told here, typed.
//
// Thread rule: a value that one thread moves about; the memory is whose protocol says.
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
  std::string why;             // in words
  bool is_of_a_group = false;  // a control group sets the limit, and not the machine
};
// The memory that ranks may share now, by the machine's word and by those of the control groups around this process
// (base/cgroup.h), as far as they can be read. The kernel itself would give more, and kill a process of the group when
// its limit is reached. So a part of a group's limit is left to the processes' own memory, which grows after memory is
// shared, and which TCP needs as well. `root`: the folder that holds /proc and /sys.
Room MemoryLeft(const std::string& root = "");

class SharedMemory {
 public:
  SharedMemory() = default;  // none
  // Zeroed. `what` needs it, for errors. kResource: no descriptor, or no such memory; the text says which limit, what
  // is needed, what there is, and the remedy.
  static Result<SharedMemory> Make(std::string_view what, std::size_t bytes);
  // Maps what a peer made. kProtocol: it is no sealed memory of `least` to `most` bytes. kResource: it cannot be
  // mapped.
  static Result<SharedMemory> Map(Fd fd, std::size_t least, std::size_t most, Access access = Access::kWrite);

  SharedMemory(SharedMemory&& other) noexcept { Swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~SharedMemory();

  MutableBytes bytes() const { return bytes_; }
  // To be passed on; closed by ForgetFd, when that is done. The mapping stays.
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
