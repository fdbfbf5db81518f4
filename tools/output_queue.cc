#include "tools/output_queue.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace rondo {
namespace {

constexpr std::size_t kMuch = 1 << 20;
constexpr std::size_t kMost = 64 << 20;

}  // namespace

void OutputQueue::Write(int stream, std::string_view bytes) {
  Stream& to = streams_[stream == STDERR_FILENO ? 1 : 0];
  if (to.is_broken || to.unsent.size() >= kMost) return;
  to.unsent += bytes;
  Flush(stream, to);
}

void OutputQueue::Flush() {
  Flush(STDOUT_FILENO, streams_[0]);
  Flush(STDERR_FILENO, streams_[1]);
}

void OutputQueue::Flush(int number, Stream& stream) {
  std::size_t sent = 0;
  while (sent < stream.unsent.size() && !stream.is_broken) {
    pollfd room{number, POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) break;
    // Where there is any room, there is room for so much at least: the write does not wait.
    const ssize_t written =
        ::write(number, stream.unsent.data() + sent, std::min<std::size_t>(PIPE_BUF, stream.unsent.size() - sent));
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {  // whoever has this file open too has set it so, and was faster
      break;
    } else if (errno != EINTR) {
      stream.is_broken = true;
      if (failure_ == 0) {
        failure_ = errno;
        failed_stream_ = number == STDOUT_FILENO ? "stdout" : "stderr";
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
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    if (!streams_[number == STDERR_FILENO ? 1 : 0].unsent.empty()) fds.push_back({number, POLLOUT, 0});
}

}  // namespace rondo
