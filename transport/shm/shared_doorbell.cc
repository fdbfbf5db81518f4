#include "transport/shm/shared_doorbell.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace rondo::shm {

void EventFdRef::Post() {
  const std::uint64_t one = 1;
  while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  // EAGAIN: the counter is full of posts that were not taken. These posts wake the owner as well.
}

void EventFdRef::Take() {
  std::uint64_t count;
  while (read(fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace rondo::shm
