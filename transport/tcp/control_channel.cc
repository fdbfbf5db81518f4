#include "transport/tcp/control_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rondo::tcp {

bool ControlChannel::Send(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (ended_ || finishing_ || backlog_.size() + bytes.size() > kMaxControlBacklogBytes) return false;
  backlog_.append(bytes);
  if (fd_ < 0) return true;  // Begin will send the backlog
  FlushLocked();
  if (!IdleLocked()) ask_flush_();
  return true;
}

void ControlChannel::Begin(int fd, Wire wire) {
  const std::lock_guard lock(mutex_);
  fd_ = fd;
  wire_ = std::move(wire);
  FlushLocked();
  if (!IdleLocked()) ask_flush_();
}

ssize_t ControlChannel::Receive(MutableBytes to, std::string& why) {
  const std::lock_guard lock(mutex_);
  const ssize_t got = wire_.Receive(fd_, to);
  if (got < 0 && wire_.failure()) why = wire_.failure()->message();
  return got;
}

bool ControlChannel::HasReceived() const {
  const std::lock_guard lock(mutex_);
  return wire_.HasReceived();
}

bool ControlChannel::Flush() {
  const std::lock_guard lock(mutex_);
  FlushLocked();
  return IdleLocked();
}

void ControlChannel::FinishWriting() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  FlushLocked();
  if (!IdleLocked() && fd_ >= 0) ask_flush_();
}

void ControlChannel::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  fd_ = -1;
  backlog_.clear();
}

bool ControlChannel::flushed() const {
  const std::lock_guard lock(mutex_);
  return ended_ || IdleLocked();
}

bool ControlChannel::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void ControlChannel::FlushLocked() {
  if (fd_ < 0) return;
  while (!backlog_.empty()) {
    const std::array<Bytes, 1> pieces{AsBytes(backlog_)};
    const ssize_t sent = wire_.Send(fd_, pieces);
    if (sent < 0) {
      // The connection broke; the control thread gets the error when it next reads.
      if (errno != EAGAIN) backlog_.clear();
      break;
    }
    backlog_.erase(0, static_cast<std::size_t>(sent));
  }
  wire_.Flush(fd_);
  if (finishing_ && IdleLocked()) shutdown(fd_, SHUT_WR);
}

}  // namespace rondo::tcp
