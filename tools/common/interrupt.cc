#include "tools/common/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/net/descriptors.h"
#include "base/tasks.h"

namespace rondo {

Result<std::unique_ptr<InterruptWatch>> InterruptWatch::Start(Duration patience) {
  std::unique_ptr<InterruptWatch> watch(new InterruptWatch(patience));
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watch->signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  watch->end_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!watch->signals_ || !watch->end_)
    return Fail(ErrorCode::kResource, "signals cannot be watched: {}", SystemWords(errno, 2));
  try {
    watch->thread_ = std::thread([raw = watch.get()] { raw->Watch(); });
  } catch (const std::system_error& failed) {
    return Fail(ErrorCode::kResource, "the thread that watches signals cannot be started: {}",
                TaskWords(failed.code().value()));
  }
  return watch;
}

InterruptWatch::~InterruptWatch() {
  const std::uint64_t one = 1;
  if (thread_.joinable()) {
    [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof one);
    thread_.join();
  }
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
  std::array<pollfd, 2> fds{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
  int timeout_ms = -1;
  while (true) {
    const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
    if (fds[1].revents != 0) return;
    if (ready < 0) continue;                        // EINTR
    if (ready == 0) ::_exit(128 + signal_.load());  // `patience` is over
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
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
