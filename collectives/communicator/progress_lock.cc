#include "collectives/communicator/progress_lock.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace rondo {

ProgressLock::ProgressLock() : kick_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (kick_fd_ < 0) kick_error_ = errno;
}

ProgressLock::~ProgressLock() {
  if (kick_fd_ >= 0) close(kick_fd_);
}

void ProgressLock::Leave(bool work) {
  held_.store(false);
  Announce(work);
}

void ProgressLock::Announce(bool work) {
  if (sleeping_.load()) {
    const std::uint64_t one = 1;
    // If this write fails, the counter is full. Then the descriptor is readable already, so the sleeper wakes.
    [[maybe_unused]] const ssize_t written = write(kick_fd_, &one, sizeof one);
  }
  if (parked_.load() > 0 || (work && parked_until_.load() > 0)) {
    // The mutex makes sure that a thread which has found its condition false is already waiting. Otherwise the
    // notification could come between its check and its wait.
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
}

bool ProgressLock::LeaveToSleep() {
  const bool first = !sleeping_.exchange(true);
  held_.store(false);
  return first;
}

void ProgressLock::EndSleep() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = read(kick_fd_, &count, sizeof count);
  sleeping_.store(false);
}

}  // namespace rondo
