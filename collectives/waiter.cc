#include "collectives/waiter.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

namespace rondo {

void KernelWaiter::Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) {
  const Duration left = std::max(deadline - clock_.Now(), Duration::zero());
  const timespec timeout{
      .tv_sec = static_cast<time_t>(left / std::chrono::seconds(1)),
      .tv_nsec = static_cast<long>((left % std::chrono::seconds(1)).count()),
  };
  std::array<pollfd, 2> fds{pollfd{endpoint.wait_fd(), POLLIN, 0}, pollfd{kick_fd, POLLIN, 0}};
  ppoll(fds.data(), fds.size(), &timeout, nullptr);  // an interrupted sleep is an early return
}

void KernelWaiter::Yield() { sched_yield(); }

int KernelWaiter::Core() { return sched_getcpu(); }

}  // namespace rondo
