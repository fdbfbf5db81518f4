// A clock of the time for which this process ran: a process that is stopped (Ctrl-Z, SIGSTOP) sees no time pass.
//
// What waits by it for others, with a deadline that is a point on it, does not find the deadline passed only because
// all were stopped. The kernel has no such clock, so a thread looks at the time again and again, and a gap between two
// looks is time in which nothing ran.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/service_thread.h"

namespace rondo {

// Thread rule: any thread.
class AwakeClock final : public Clock {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  // A gap of up to this much is time that passed: threads wait for a core.
  static constexpr Duration kGap = std::chrono::milliseconds(300);

  explicit AwakeClock(std::shared_ptr<const Clock> machine) : machine_(std::move(machine)) {}

  TimePoint Now() const override {
    const std::lock_guard lock(mutex_);
    const TimePoint now = machine_->Now();
    return (ticks_ ? std::min(now, ticked_at_ + kGap) : now) - stopped_for_;
  }
  Duration WallNow() const override { return machine_->WallNow(); }

  // To be called every kTick, from the first call on.
  void Tick() {
    const std::lock_guard lock(mutex_);
    const TimePoint now = machine_->Now();
    if (ticks_ && now - ticked_at_ > kGap) stopped_for_ += now - ticked_at_ - kGap;
    ticked_at_ = now;
    ticks_ = true;
  }
  // No more calls of Tick: from here on it goes like the machine's.
  void EndTicks() {
    Tick();
    const std::lock_guard lock(mutex_);
    ticks_ = false;
  }

 private:
  const std::shared_ptr<const Clock> machine_;
  mutable std::mutex mutex_;
  bool ticks_ = false;
  TimePoint ticked_at_{};
  Duration stopped_for_ = Duration::zero();
};

// The thread that ticks, as long as this lives. Its maker throws what std::thread throws.
class AwakeClockTicker {
 public:
  explicit AwakeClockTicker(std::shared_ptr<AwakeClock> clock) : clock_(std::move(clock)) {
    clock_->Tick();
    thread_ = StartServiceThread("rondo-awake", [this] {
      std::unique_lock lock(mutex_);
      while (!ends_.wait_for(lock, AwakeClock::kTick, [this] { return is_over_; })) clock_->Tick();
    });
  }
  ~AwakeClockTicker() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ends_.notify_one();
    thread_.join();
    clock_->EndTicks();
  }
  AwakeClockTicker(const AwakeClockTicker&) = delete;
  AwakeClockTicker& operator=(const AwakeClockTicker&) = delete;

 private:
  const std::shared_ptr<AwakeClock> clock_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rondo
