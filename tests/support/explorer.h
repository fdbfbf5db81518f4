// Runs a few short threads under every order in which their steps can be taken, up to a number of preemptions: a small
// stateless model checker for lock-free code (after Musuvathi and Qadeer, "Iterative context bounding for systematic
// testing of multithreaded programs", PLDI 2007). A step is an operation on an Explored atomic, so the code under test
// takes its atomics as a parameter. Only one thread runs at a time and memory is sequentially consistent; that is the
// whole truth for code whose atomics all are.
//
//   Explorer explorer(/*max_preemptions=*/3);
//   do {
//     Subject subject(explorer);
//     explorer.Run({[&] { ... }, [&] { ... }});
//   } while (explorer.NextSchedule());
//   CHECK(explorer.deadlocks() == 0);
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo {

class Explorer {
 public:
  explicit Explorer(int max_preemptions) : max_preemptions_(max_preemptions) {}

  // Runs the bodies to their ends under the current schedule, or until all that are left are blocked.
  void Run(std::vector<std::function<void()>> bodies) {
    threads_.assign(bodies.size(), {});
    running_ = 0;
    preemptions_ = 0;
    depth_ = 0;
    deadlocked_ = false;
    std::vector<std::thread> threads;
    for (std::size_t id = 0; id < bodies.size(); ++id)
      threads.emplace_back([this, id, body = bodies[id]] {
        self_ = id;
        try {
          {
            std::unique_lock lock(mutex_);
            AwaitTurn(lock);
          }
          body();
        } catch (const Deadlock&) {
        }
        std::unique_lock lock(mutex_);
        threads_[id].finished = true;
        Choose(lock);
      });
    for (auto& thread : threads) thread.join();
    deadlocks_ += deadlocked_;
    ++schedules_;
  }

  // The next schedule in depth-first order; false when all have been tried.
  bool NextSchedule() {
    path_.resize(depth_);
    while (!path_.empty() && path_.back().chosen + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().chosen;
    return true;
  }

  int schedules() const { return schedules_; }
  int deadlocks() const { return deadlocks_; }

  // ---- for what runs inside ----

  // Which of the threads this one is.
  std::size_t self() const { return self_; }
  // One of `options` values: each is tried.
  std::size_t Pick(std::size_t options) {
    if (options == 1) return 0;
    const std::lock_guard lock(mutex_);
    if (depth_ == path_.size()) path_.push_back({0, options});
    return path_[depth_++].chosen;
  }

  // A point at which another thread may go first.
  void Step() { BlockUntil(nullptr); }

  // Goes on once the condition holds. It is asked while nobody runs.
  void BlockUntil(std::function<bool()> condition) {
    std::unique_lock lock(mutex_);
    threads_[self_].condition = std::move(condition);
    Choose(lock);
    AwaitTurn(lock);
    threads_[self_].condition = nullptr;
  }

 private:
  struct Deadlock {};
  struct Thread {
    bool finished = false;
    std::function<bool()> condition;
    bool CanRun() const { return !finished && (!condition || condition()); }
  };
  struct Choice {
    std::size_t chosen;
    std::size_t options;
  };

  void AwaitTurn(std::unique_lock<std::mutex>& lock) {
    turn_.wait(lock, [&] { return deadlocked_ || running_ == self_; });
    if (deadlocked_) throw Deadlock();
  }

  // Decides who runs next: the current thread first, so that a schedule's first choice is no preemption.
  void Choose(std::unique_lock<std::mutex>&) {
    if (deadlocked_) return;
    std::vector<std::size_t> options;
    const bool goes_on = threads_[self_].CanRun();
    if (goes_on) options.push_back(self_);
    if (!goes_on || preemptions_ < max_preemptions_)
      for (std::size_t id = 0; id < threads_.size(); ++id)
        if (id != self_ && threads_[id].CanRun()) options.push_back(id);
    if (options.empty()) {
      for (const Thread& thread : threads_) deadlocked_ = deadlocked_ || !thread.finished;
      turn_.notify_all();
      return;
    }
    if (depth_ == path_.size()) path_.push_back({0, options.size()});
    running_ = options[path_[depth_++].chosen];
    if (running_ == self_) return;
    if (goes_on) ++preemptions_;
    turn_.notify_all();
  }

  const int max_preemptions_;
  std::mutex mutex_;
  std::condition_variable turn_;
  // Guarded by mutex_ while threads run.
  std::vector<Thread> threads_;
  std::size_t running_ = 0;
  int preemptions_ = 0;
  std::size_t depth_ = 0;  // choices made in this run
  bool deadlocked_ = false;

  std::vector<Choice> path_;
  int schedules_ = 0;
  int deadlocks_ = 0;
  static inline thread_local std::size_t self_ = 0;
};

// An atomic whose every operation is a step.
template <typename T>
class Explored {
 public:
  Explored(Explorer& explorer, T value) : explorer_(explorer), value_(value) {}

  T load(std::memory_order = std::memory_order_seq_cst) const {
    explorer_.Step();
    return value_;
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) {
    explorer_.Step();
    value_ = value;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order = std::memory_order_seq_cst) {
    explorer_.Step();
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    value_ = desired;
    return true;
  }

 private:
  Explorer& explorer_;
  T value_;  // touched by the running thread only; handed over through the explorer's mutex
};

}  // namespace rondo
