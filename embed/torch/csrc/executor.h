// Threads that run continuations of futures.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo_torch {

// A continuation of a future may wait for other futures of the group, so it must not block the thread that completes
// those. This class runs every task at once: on an idle thread, otherwise on a new one. If the system has no thread
// left, the task runs on the calling thread.
class Executor {
 public:
  Executor() : shared_(std::make_shared<Shared>()) {}
  // Waits until all tasks are done. It does not wait for its own thread if a task releases the last reference to the
  // group.
  ~Executor();
  void Run(std::function<void()> task);
  // Runs the task too, but such tasks run one after the other.
  void RunInTurn(std::function<void()> task);
  // Waits until all tasks are done, but no longer than `until`. For the end of a process: one of these threads may need
  // Python's lock when it frees a tensor. Python ends threads that ask for the lock too late, and the process with
  // them. REQUIRES: the caller does not hold Python's lock and is not a thread of this executor.
  void AwaitIdle(std::chrono::steady_clock::time_point until);

 private:
  struct Shared {  // the threads share it, because one of them may outlive the Executor
    std::mutex mutex;
    std::condition_variable due;
    std::condition_variable quiet;  // signalled when no task is queued or running
    std::deque<std::function<void()>> tasks;
    std::deque<std::function<void()>> in_turn;
    bool takes_turns = false;  // a thread runs the tasks in in_turn
    size_t idle = 0;
    size_t running = 0;  // number of running tasks
    bool over = false;
  };
  static void Work(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;  // guarded by the mutex
};

}  // namespace rondo_torch
