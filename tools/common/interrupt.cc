#include "tools/common/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

namespace rondo {

InterruptWatch::InterruptWatch(Duration patience) : patience_(patience) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  end_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Watch(); });
}

InterruptWatch::~InterruptWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(end_fd_, &one, sizeof one);
  thread_.join();
  ::close(signal_fd_);
  ::close(end_fd_);
}

void InterruptWatch::OnInterrupt(std::function<void(int)> tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
}

void InterruptWatch::OnReport(std::function<void()> report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

void InterruptWatch::Watch() {
  std::array<pollfd, 2> fds{{{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}}};
  int timeout_ms = -1;
  while (true) {
    const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
    if (fds[1].revents != 0) return;
    if (ready < 0) continue;                        // EINTR
    if (ready == 0) ::_exit(128 + signal_.load());  // patience is at an end
    signalfd_siginfo info;
    if (::read(signal_fd_, &info, sizeof info) != sizeof info) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    const std::lock_guard lock(mutex_);
    if (signal == SIGUSR1) {
      if (report_) report_();
      continue;
    }
    if (signal_.load() != 0 || !tell_) ::_exit(128 + signal);
    signal_.store(signal, std::memory_order_release);
    tell_(signal);
    timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience_).count());
  }
}

}  // namespace rondo
