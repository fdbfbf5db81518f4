#include "tools/run/input_feed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tools/common/standard_streams.h"

namespace rondo {

InputFeed::InputFeed() : is_terminal_(::isatty(STDIN_FILENO) == 1) {
  struct stat status {};
  const bool is_pipe = ::fstat(STDIN_FILENO, &status) == 0 && S_ISFIFO(status.st_mode);
  // Opens stdin again with O_NONBLOCK, because another process may read the bytes between our poll and our read, and
  // then our read would block.
  if (is_terminal_ || is_pipe) own_ = Fd(::open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool InputFeed::CanBeInherited() { return ::isatty(STDIN_FILENO) != 1 && !IsNonBlocking(STDIN_FILENO); }

bool InputFeed::MayRead() const {
  if (has_ended_) return false;
  if (!is_terminal_) return true;
  // -1: stdin is not our controlling terminal, so any process may read it.
  const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
  return foreground < 0 || foreground == ::getpgrp();
}

void InputFeed::AddDescriptors(std::vector<pollfd>& fds) const {
  if (MayRead()) fds.push_back({fd(), POLLIN, 0});
}

bool InputFeed::Pump(const std::function<void(std::string_view)>& give) {
  if (!MayRead()) return false;
  pollfd ready{fd(), POLLIN, 0};
  if (::poll(&ready, 1, 0) <= 0) return false;
  std::array<char, 64 << 10> buffer;
  const ssize_t got = ::read(fd(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  // The shell has just put this process into the background. SIGTTIN is blocked, so the read failed instead of stopping
  // this process.
  if (got < 0 && errno == EIO && !MayRead()) return false;
  has_ended_ = got <= 0;
  const std::string_view bytes(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  give(bytes);
  return is_terminal_ && bytes.ends_with('\n');
}

}  // namespace rondo
