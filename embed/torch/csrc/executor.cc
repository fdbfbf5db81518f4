#include "executor.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace rondo_torch {

Executor::~Executor() {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->over = true;
  }
  shared_->due.notify_all();
  for (std::thread& thread : threads_) thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
}

void Executor::Run(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->tasks.push_back(task);
    if (shared_->idle >= shared_->tasks.size()) return shared_->due.notify_one();
    try {
      threads_.emplace_back([shared = shared_] {
        pthread_setname_np(pthread_self(), "rondo-futures");
        Work(shared);
      });
      return;
    } catch (const std::system_error&) {
      shared_->tasks.pop_back();
    }
  }
  task();
}

void Executor::AwaitIdle(std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->quiet.wait_until(lock, until, [&] { return shared_->running == 0 && shared_->tasks.empty(); });
}

void Executor::RunInTurn(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->in_turn.push_back(std::move(task));
    if (std::exchange(shared_->takes_turns, true)) return;
  }
  Run([shared = shared_] {
    std::unique_lock<std::mutex> lock(shared->mutex);
    while (!shared->in_turn.empty()) {
      std::function<void()> next = std::move(shared->in_turn.front());
      shared->in_turn.pop_front();
      lock.unlock();
      next();
      next = nullptr;
      lock.lock();
    }
    shared->takes_turns = false;
  });
}

void Executor::Work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  while (true) {
    ++shared->idle;
    shared->due.wait(lock, [&] { return shared->over || !shared->tasks.empty(); });
    --shared->idle;
    if (shared->tasks.empty()) return;
    std::function<void()> task = std::move(shared->tasks.front());
    shared->tasks.pop_front();
    ++shared->running;
    lock.unlock();
    task();
    task = nullptr;  // frees objects that the task holds, before the lock is taken
    lock.lock();
    if (--shared->running == 0 && shared->tasks.empty()) shared->quiet.notify_all();
  }
}

}  // namespace rondo_torch
