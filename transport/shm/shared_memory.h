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
#include "base/result.h"
#include "transport/fd.h"

namespace rondo::shm {

enum class Access : bool { kRead, kWrite };

struct Room {
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  std::string why;  // in words
};
// What may be taken now, by the machine's word and the control group's; as far as either can be read. The kernel itself
// would give until somebody, whoever that is, is ended for it. `root`: the folder that holds /proc and /sys.
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
