// Delivers SIGINT, SIGTERM and SIGUSR1 to a program as callbacks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/result.h"

namespace rondo {

// Blocks SIGINT, SIGTERM and SIGUSR1 in the calling thread and in every thread that it starts later, and waits for them
// on a thread of its own. SIGINT and SIGTERM are interrupts. The first interrupt calls the OnInterrupt callback, after
// which the program must end within `patience`. The process ends with code 128 + signal if there is no callback, at a
// second interrupt, or when `patience` has passed. SIGUSR1 only requests a report, and may arrive any number of times.
// REQUIRES: made before any other thread; one per process.
class InterruptWatch {
 public:
  // kResource: no thread or descriptor can be made.
  static Result<std::unique_ptr<InterruptWatch>> Start(Duration patience = std::chrono::seconds(3));
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Sets the callback for the first interrupt. It runs at most once, on the thread of the watch. Null: no callback.
  // Does not return while the old callback runs.
  void OnInterrupt(std::function<void(int signal)> tell);
  // Sets the callback for SIGUSR1. It runs on the thread of the watch. Null: SIGUSR1 does nothing. Does not return
  // while the old callback runs.
  void OnReport(std::function<void()> report);
  // The signal of the interrupt that was received; 0: none was received.
  int signal() const { return signal_.load(std::memory_order_acquire); }

 private:
  explicit InterruptWatch(Duration patience) : patience_(patience) {}
  void Watch();

  const Duration patience_;
  Fd signals_;
  Fd end_;  // an eventfd; a write to it ends the thread
  std::atomic<int> signal_{0};
  std::mutex mutex_;
  std::function<void(int)> tell_;
  std::function<void()> report_;
  std::thread thread_;
};

}  // namespace rondo
