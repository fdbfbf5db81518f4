#include "transport/tcp/control_channel.h"

#include <sys/socket.h>

#include <cerrno>

namespace rondo::tcp {

bool ControlChannel::Send(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (ended_ || finishing_ || backlog_.size() + bytes.size() > kMaxControlBacklogBytes) return false;
  backlog_.append(bytes);
  if (fd_ < 0) return true;  // Begin sends it
  FlushLocked();
  if (!backlog_.empty()) ask_flush_();
  return true;
}

void ControlChannel::Begin(int fd) {
  const std::lock_guard lock(mutex_);
  fd_ = fd;
  FlushLocked();
  if (!backlog_.empty()) ask_flush_();
}

bool ControlChannel::Flush() {
  const std::lock_guard lock(mutex_);
  FlushLocked();
  return backlog_.empty();
}

void ControlChannel::FinishWriting() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  FlushLocked();
  if (!backlog_.empty() && fd_ >= 0) ask_flush_();
}

void ControlChannel::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  fd_ = -1;
  backlog_.clear();
}

bool ControlChannel::flushed() const {
  const std::lock_guard lock(mutex_);
  return ended_ || backlog_.empty();
}

bool ControlChannel::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void ControlChannel::FlushLocked() {
  if (fd_ < 0) return;
  while (!backlog_.empty()) {
    const ssize_t sent = send(fd_, backlog_.data(), backlog_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) backlog_.clear();  // the connection broke; who reads it will say so
      break;
    }
    backlog_.erase(0, static_cast<std::size_t>(sent));
  }
  if (finishing_ && backlog_.empty()) shutdown(fd_, SHUT_WR);
}

}  // namespace rondo::tcp
