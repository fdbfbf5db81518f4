#include "tools/common/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <initializer_list>

namespace rondo {
namespace {

// The write function of a C stream; its cookie is the descriptor. Waits until all bytes are written, or an error
// occurs.
ssize_t WriteWhole(void* cookie, const char* bytes, std::size_t size) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(cookie));
  std::size_t done = 0;
  while (done < size) {
    const ssize_t written = ::write(fd, bytes + done, size - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return static_cast<ssize_t>(done);
}

std::FILE* Waiting(int fd, std::FILE* otherwise) {
  std::FILE* const stream = ::fopencookie(reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), "w",
                                          {.read = nullptr, .write = WriteWhole, .seek = nullptr, .close = nullptr});
  return stream != nullptr ? stream : otherwise;
}

}  // namespace

void OpenStandardStreams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) != -1) continue;
    // open returns the lowest free descriptor, which is `number`. /dev/null is opened for the wrong direction, so that
    // reading or writing fails. Without /dev, a folder is opened with O_PATH, because reading and writing such a
    // descriptor also fail.
    if (::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) [[maybe_unused]]
      const int taken = ::open("/", O_PATH);
  }
}

void MakeStandardStreamsWait() {
  stdout = Waiting(STDOUT_FILENO, stdout);
  ::setvbuf(stdout, nullptr, ::isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF, BUFSIZ);
  stderr = Waiting(STDERR_FILENO, stderr);
  ::setvbuf(stderr, nullptr, _IONBF, 0);
}

bool IsNonBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace rondo
