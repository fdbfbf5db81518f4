// Threads for what hangs on futures.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo_torch {

// What hangs on a future may wait for other futures of the group, so it must not keep the thread that completes those.
// Runs everything that it is given at once: by a thread that is idle, else by a new one.
class Executor {
 public:
  ~Executor();
  void Run(std::function<void()> task);

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable due_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool over_ = false;
};

}  // namespace rondo_torch
