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
// these futures. This class runs every task immediately: on an idle thread, or on a new thread if none is idle. If the
// system cannot create a thread, the task runs on the calling thread.
class Executor {
 public:
  Executor() : shared_(std::make_shared<Shared>()) {}
  // Waits until all tasks are done. If a task releases the last reference to the group, the destructor runs on that
  // task's thread, and does not wait for this task.
  ~Executor();
  void Run(std::function<void()> task);
  // Like Run, but tasks passed to this function run one after the other.
  void RunInTurn(std::function<void()> task);
  // Waits until all tasks are done or `until` passes. It is needed at the end of a process, because a thread of
  // this executor may need Python's lock when it frees a tensor. If a thread asks for the lock after Python has shut
  // down, Python ends the thread, and the whole process terminates with it. REQUIRES: the caller does not hold Python's
  // lock and is not a thread of this executor.
  void AwaitIdle(std::chrono::steady_clock::time_point until);

 private:
  struct Shared {  // shared with the threads, because a thread may outlive the Executor
    std::mutex mutex;
    std::condition_variable due;
    std::condition_variable quiet;  // signalled when no task is queued or running
    std::deque<std::function<void()>> tasks;
    std::deque<std::function<void()>> in_turn;
    bool takes_turns = false;  // true: a thread is running the tasks in in_turn
    size_t idle = 0;
    size_t running = 0;  // number of running tasks
    bool over = false;
  };
  static void Work(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;  // guarded by the mutex
};

}  // namespace rondo_torch
