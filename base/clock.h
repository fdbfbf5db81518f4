// Time as a value that is handed in. Nothing outside base/ reads a clock or sleeps by itself, so that tests and the
// simulator can run on virtual time. Deadlines are absolute points on this monotonic clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace rondo {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// now + by; the end of time where that would lie beyond it.
constexpr TimePoint Later(TimePoint now, Duration by) {
  return by > TimePoint::max() - now ? TimePoint::max() : now + by;
}

// So much of the time until `deadline` as a wait of the standard library may be given, which adds it to its own clock.
// Whoever waits looks again after it.
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
  // At most kCoarse behind Now, for less: what deadlines far away are counted from.
  virtual TimePoint CoarseNow() const { return Now(); }
  static constexpr Duration kCoarse = std::chrono::milliseconds(20);
  // Time since 1970-01-01 UTC: for people, and for laying side by side what several machines recorded. It may be set,
  // so nothing is ever waited for by it. Virtual time is its own.
  virtual Duration WallNow() const { return Now().time_since_epoch(); }
};

// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  TimePoint CoarseNow() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // of the last timer tick; 10 ms behind at most
    return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
  Duration WallNow() const override { return std::chrono::system_clock::now().time_since_epoch(); }
};

// A clock that stands still until somebody moves it.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load(std::memory_order_acquire))); }
  void Advance(Duration by) { now_ns_.fetch_add(by.count(), std::memory_order_acq_rel); }
  void AdvanceTo(TimePoint to) { now_ns_.store(to.time_since_epoch().count(), std::memory_order_release); }

 private:
  std::atomic<std::int64_t> now_ns_{1'000'000'000};  // not 0, so that a forgotten TimePoint{} is in the past
};

}  // namespace rondo
