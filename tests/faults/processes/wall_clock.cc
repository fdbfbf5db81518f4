#include "tests/faults/processes/wall_clock.h"

#include <dlfcn.h>

#include <atomic>
#include <ctime>

namespace rondo::processes {
namespace {

std::atomic<std::int64_t> offset_s{0};
std::atomic<bool> jumped{false};
std::atomic<std::uint64_t> reads{0};

}  // namespace

void JumpWallClock(std::int64_t seconds) {
  offset_s.fetch_add(seconds);
  jumped = true;
}

std::uint64_t ReadsOfJumpedClock() { return reads; }

}  // namespace rondo::processes

// A definition in the program replaces libc's function, also for calls from libraries.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Real = int (*)(clockid_t, timespec*);
  static const Real real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME && rondo::processes::jumped.load(std::memory_order_relaxed)) {
    now->tv_sec += rondo::processes::offset_s.load(std::memory_order_relaxed);
    ++rondo::processes::reads;
  }
  return result;
}
