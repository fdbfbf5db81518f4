// A clock that counts only the time during which this process ran. It does not advance while the process is stopped
// (Ctrl-Z, SIGSTOP).
//
// If a wait for other processes has its deadline on this clock, stopping all processes does not make the deadline pass.
// The kernel has no such clock. So a thread reads the machine's clock periodically, and treats a long gap between two
// readings as time in which the process was stopped.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/service_thread.h"

namespace rondo {

// Thread rule: any thread.
class AwakeClock final : public Clock {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  // A gap between two ticks counts as running time up to this length, because the ticking thread may have to wait for a
  // CPU core.
  static constexpr Duration kGap = std::chrono::milliseconds(300);

  explicit AwakeClock(std::shared_ptr<const Clock> machine) : machine_(std::move(machine)) {}

  TimePoint Now() const override {
    const std::lock_guard lock(mutex_);
    const TimePoint now = machine_->Now();
    return (ticks_ ? std::min(now, ticked_at_ + kGap) : now) - stopped_for_;
  }
  Duration WallNow() const override { return machine_->WallNow(); }

  // Must be called every kTick after the first call.
  void Tick() {
    const std::lock_guard lock(mutex_);
    const TimePoint now = machine_->Now();
    if (ticks_ && now - ticked_at_ > kGap) stopped_for_ += now - ticked_at_ - kGap;
    ticked_at_ = now;
    ticks_ = true;
  }
  // Must be called after the last call of Tick. After that, this clock advances with the machine's clock.
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

// Owns the thread that calls Tick, until destruction. The constructor throws the same exceptions as std::thread.
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

// Makes a ticker for `clock`, which may have had one before. Null if no thread is available: the clock then advances
// with the machine's clock.
inline std::shared_ptr<const AwakeClockTicker> StartTicking(const std::shared_ptr<AwakeClock>& clock) {
  try {
    return std::make_shared<const AwakeClockTicker>(clock);
  } catch (const std::system_error&) {
    clock->EndTicks();
    return nullptr;
  }
}

}  // namespace rondo
