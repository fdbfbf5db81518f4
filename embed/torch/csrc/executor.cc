#include "executor.h"

#include <pthread.h>

#include <utility>

namespace rondo_torch {

Executor::~Executor() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  due_.notify_all();
  // The last of a group may be let go by what hangs on a future of its own.
  for (std::thread& thread : threads_) thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
}

void Executor::Run(std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ >= tasks_.size()) return due_.notify_one();
  threads_.emplace_back([this] {
    pthread_setname_np(pthread_self(), "rondo-futures");
    Work();
  });
}

void Executor::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    due_.wait(lock, [this] { return over_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace rondo_torch
