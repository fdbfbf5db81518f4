// Threads for what hangs on futures.
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

// What hangs on a future may wait for other futures of the group, so it must not keep the thread that completes those.
// Runs everything that it is given at once: by a thread that is idle, else by a new one, else, where the system has
// none, here.
class Executor {
 public:
  Executor() : shared_(std::make_shared<Shared>()) {}
  // When all that was given is done; not by waiting for itself, where what hangs on a future lets the last of its group
  // go.
  ~Executor();
  void Run(std::function<void()> task);
  // The same, but one after the other.
  void RunInTurn(std::function<void()> task);
  // Waits until all that was given is done, but no longer than `until`. For the end of a process: a thread of ours that
  // lets go of a tensor may need Python's lock, and Python ends threads that ask for it too late, and with them the
  // process. REQUIRES: the caller does not have Python's lock, and is no thread of this executor.
  void AwaitIdle(std::chrono::steady_clock::time_point until);

 private:
  struct Shared {  // with its threads: one of them may outlive the Executor
    std::mutex mutex;
    std::condition_variable due;
    std::condition_variable quiet;  // nothing is due, and nothing runs
    std::deque<std::function<void()>> tasks;
    std::deque<std::function<void()>> in_turn;
    bool takes_turns = false;  // somebody runs those
    size_t idle = 0;
    size_t running = 0;  // tasks
    bool over = false;
  };
  static void Work(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;  // guarded by the mutex
};

}  // namespace rondo_torch
