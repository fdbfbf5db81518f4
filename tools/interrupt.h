// SIGINT and SIGTERM as an event that a program can answer in its own time.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace rondo {

// Takes both signals away from every thread that is started after it and waits for them on a thread of its own. While
// nobody has said what to do, a signal ends the process with code 128 + signal; so does a second signal, and so does
// the program's failure to end within `patience` of the first. REQUIRES: made before any other thread; one per process.
class InterruptWatch {
 public:
  explicit InterruptWatch(Duration patience = std::chrono::seconds(3));
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Called with the signal, at most once, from the watch's thread. Null: nothing is to be told any more.
  void OnInterrupt(std::function<void(int signal)> tell);
  // The signal that came, else 0.
  int signal() const { return signal_.load(std::memory_order_acquire); }

 private:
  void Watch();

  const Duration patience_;
  int signal_fd_ = -1;
  int end_fd_ = -1;
  std::atomic<int> signal_{0};
  std::mutex mutex_;
  std::function<void(int)> tell_;
  std::thread thread_;
};

}  // namespace rondo
