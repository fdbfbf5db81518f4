#include "tools/run/output_queue.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rondo {
namespace {

constexpr std::size_t kMuch = 1 << 20;
constexpr std::size_t kMax = 64 << 20;

}  // namespace

// Opens a terminal again with O_NONBLOCK. poll reports a terminal as writable if it has room for one byte, but a
// blocking write would wait until the terminal has accepted all bytes.
OutputQueue::OutputQueue() : streams_{Stream{.number = STDOUT_FILENO}, Stream{.number = STDERR_FILENO}} {
  for (Stream& stream : streams_) {
    if (::isatty(stream.number) == 0) continue;
    const std::string path = fmt::format("/proc/self/fd/{}", stream.number);
    stream.terminal = Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

void OutputQueue::Write(int stream, std::string_view bytes) {
  Stream& to = streams_[stream == STDERR_FILENO ? 1 : 0];
  if (to.is_broken || to.unsent.size() >= kMax) return;
  to.unsent += bytes;
  Flush(to);
}

void OutputQueue::Flush() {
  for (Stream& stream : streams_) Flush(stream);
}

void OutputQueue::Flush(Stream& stream) {
  std::size_t sent = 0;
  while (sent < stream.unsent.size() && !stream.is_broken) {
    pollfd room{stream.fd(), POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) break;
    // If poll reports a pipe as writable, it has room for at least PIPE_BUF bytes, so this write does not block.
    const ssize_t written =
        ::write(stream.fd(), stream.unsent.data() + sent, std::min<std::size_t>(PIPE_BUF, stream.unsent.size() - sent));
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {  // another process has made this file non-blocking, and has filled it since the poll
      break;
    } else if (errno != EINTR) {
      stream.is_broken = true;
      if (failure_ == 0) {
        failure_ = errno;
        failed_stream_ = stream.number == STDOUT_FILENO ? "stdout" : "stderr";
      }
    }
  }
  stream.unsent.erase(0, stream.is_broken ? std::string::npos : sent);
}

bool OutputQueue::IsEmpty() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.unsent.empty(); });
}

bool OutputQueue::IsFull() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.unsent.size() >= kMuch; });
}

void OutputQueue::AddDescriptors(std::vector<pollfd>& fds) const {
  for (const Stream& stream : streams_)
    if (!stream.unsent.empty()) fds.push_back({stream.fd(), POLLOUT, 0});
}

}  // namespace rondo
