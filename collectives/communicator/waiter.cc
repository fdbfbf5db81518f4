#include "collectives/communicator/waiter.h"

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace rondo {
namespace {

// If no other thread runs, a yield takes two to three times as long as a system call that does nothing. If another
// thread runs, it takes longer. A system call that does nothing takes 0.1 us, or 0.25 us with mitigations, or 2 us on
// an emulated processor.
Duration MeasureLongYield(const Clock& clock) {
  constexpr int kCalls = 8, kLongInCalls = 5;
  Duration call = Duration::max();
  for (int i = 0; i < kCalls; ++i) {
    const TimePoint before = clock.Now();
    syscall(SYS_getppid);
    call = std::min(call, clock.Now() - before);
  }
  constexpr Duration kMin = std::chrono::microseconds(1), kMax = std::chrono::microseconds(50);
  return std::clamp(kLongInCalls * call, kMin, kMax);
}

}  // namespace

KernelWaiter::KernelWaiter(const Clock& clock) : clock_(clock), long_yield_(MeasureLongYield(clock)) {}

void KernelWaiter::Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) {
  const Duration left = std::max(deadline - clock_.Now(), Duration::zero());
  const timespec timeout{
      .tv_sec = static_cast<time_t>(left / std::chrono::seconds(1)),
      .tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count()),
  };
  std::array<pollfd, 2> fds{pollfd{endpoint.wait_fd(), POLLIN, 0}, pollfd{kick_fd, POLLIN, 0}};
  ppoll(fds.data(), fds.size(), &timeout, nullptr);  // a signal may end the sleep early, which is harmless
}

void KernelWaiter::Yield() { sched_yield(); }

int KernelWaiter::Core() { return sched_getcpu(); }

}  // namespace rondo
