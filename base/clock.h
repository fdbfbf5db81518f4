// The interface of clocks. Callers pass a Clock to the library. Code outside base/ uses only that clock to read the
// time and to sleep, so tests and the simulator can run on virtual time. Deadlines are absolute points on this
// monotonic clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace rondo {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// now + by, or the largest TimePoint if the sum would exceed it.
constexpr TimePoint Later(TimePoint now, Duration by) {
  return by > TimePoint::max() - now ? TimePoint::max() : now + by;
}

// The time until `deadline`, at least 0 and at most an hour. Waits of the standard library add their timeout to the
// current time, which could overflow. The caller must check the deadline again after the wait.
constexpr Duration AtMostAnHour(TimePoint deadline, TimePoint now) {
  constexpr Duration kLongest = std::chrono::hours(1);
  if (deadline <= now) return Duration(0);
  return deadline - now < kLongest ? deadline - now : kLongest;
}

// Thread rule: any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // A clock that is cheaper to read than Now, and at most kCoarse behind it. It is meant for deadlines that are far
  // away.
  virtual TimePoint CoarseNow() const { return Now(); }
  static constexpr Duration kCoarse = std::chrono::milliseconds(20);
  // Time since 1970-01-01 UTC, for people and for comparing the records of several machines. It jumps when the system's
  // clock is set, so it must not be used for deadlines. On a virtual clock this is virtual time.
  virtual Duration WallNow() const { return Now().time_since_epoch(); }
};

// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  TimePoint CoarseNow() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // the time of the latest timer tick, at most 10 ms ago
    return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
  Duration WallNow() const override { return std::chrono::system_clock::now().time_since_epoch(); }
};

// A clock that changes only by Advance and AdvanceTo.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load(std::memory_order_acquire))); }
  void Advance(Duration by) { now_ns_.fetch_add(by.count(), std::memory_order_acq_rel); }
  void AdvanceTo(TimePoint to) { now_ns_.store(to.time_since_epoch().count(), std::memory_order_release); }

 private:
  std::atomic<std::int64_t> now_ns_{1'000'000'000};  // not 0, so that a default TimePoint{} is in the past
};

}  // namespace rondo
