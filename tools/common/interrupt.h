// SIGINT, SIGTERM and SIGUSR1 as events that a program can answer in its own time.
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

// Takes these signals away from every thread that is started after it and waits for them on a thread of its own. While
// nobody has said what to do, an interrupt (one of the first two) ends the process with code 128 + signal; so does a
// second one, and so does the program's failure to end within `patience` of the first. SIGUSR1 asks for a report: it
// ends nothing and may come any number of times. REQUIRES: made before any other thread; one per process.
class InterruptWatch {
 public:
  // kResource: a limit allows no thread.
  static Result<std::unique_ptr<InterruptWatch>> Start(Duration patience = std::chrono::seconds(3));
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Called with the signal, at most once, from the watch's thread. Null: nothing is to be told any more.
  void OnInterrupt(std::function<void(int signal)> tell);
  // Called from the watch's thread whenever SIGUSR1 comes. Null: nobody answers.
  void OnReport(std::function<void()> report);
  // The signal that came, else 0.
  int signal() const { return signal_.load(std::memory_order_acquire); }

 private:
  explicit InterruptWatch(Duration patience) : patience_(patience) {}
  void Watch();

  const Duration patience_;
  Fd signals_;
  Fd end_;  // an eventfd: the thread must end
  std::atomic<int> signal_{0};
  std::mutex mutex_;
  std::function<void(int)> tell_;
  std::function<void()> report_;
  std::thread thread_;
};

}  // namespace rondo
