// Counts how often a fault fired. A test of a fault must check the count, because otherwise it may test nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace rondo::fault {

// Thread rule: any thread. A thread that reads a count sees everything that happened before the Fire that led to this
// count.
class FireCount {
 public:
  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

  // Waits until the fault has fired `times` times, but at most `patience` of real time. Returns whether it has fired so
  // often.
  bool Await(std::uint64_t times, Duration patience) const {
    std::unique_lock lock(mutex_);
    return fired_.wait_for(lock, patience, [&] { return count() >= times; });
  }

  void Fire() {
    {
      // Without the lock, a thread between its check and its sleep would miss the change.
      const std::lock_guard lock(mutex_);
      count_.fetch_add(1, std::memory_order_release);
    }
    fired_.notify_all();
  }

 private:
  std::atomic<std::uint64_t> count_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable fired_;
};

}  // namespace rondo::fault
