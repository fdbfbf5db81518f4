#include "transport/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/net/descriptors.h"

namespace rondo {

Status EventFd::Open() {
  RONDO_CHECK(!fd_);
  fd_ = Fd(eventfd(0, EFD_CLOEXEC));
  if (!fd_)
    return Fail(ErrorCode::kResource, "cannot create the eventfd that wakes an endpoint: {}", SystemWords(errno));
  return {};
}

void EventFd::Post() {
  const std::uint64_t one = 1;
  ssize_t put = 0;
  do put = write(fd_.get(), &one, sizeof one);
  while (put < 0 && errno == EINTR);
  RONDO_CHECK(put == sizeof one, "eventfd: {}", std::strerror(errno));
}

void EventFd::Take() {
  std::uint64_t count = 0;
  ssize_t got = 0;
  do got = read(fd_.get(), &count, sizeof count);
  while (got < 0 && errno == EINTR);
  RONDO_CHECK(got == sizeof count && count == 1, "eventfd: {} bytes, count {}", got, count);
}

}  // namespace rondo
