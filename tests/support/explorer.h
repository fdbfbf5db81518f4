// Runs a few short threads in every possible order of their steps, up to a number of preemptions. It is a small
// stateless model checker for lock-free code (after Musuvathi and Qadeer, "Iterative context bounding for systematic
// testing of multithreaded programs", PLDI 2007). A step is an operation on an Explored atomic, so the tested code
// takes its atomics as a parameter. Only one thread runs at a time, and memory is sequentially consistent. This covers
// all orders for code whose atomic operations are all sequentially consistent. The threads are fibers, because kernel
// threads take far longer to switch.
//
//   Explorer explorer(/*max_preemptions=*/3);
//   do {
//     Subject subject(explorer);
//     explorer.Run({[&] { ... }, [&] { ... }});
//   } while (explorer.NextSchedule());
//   CHECK(explorer.deadlocks() == 0);
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "simulation/fibers.h"

namespace rondo {

class Explorer {
 public:
  explicit Explorer(int max_preemptions) : max_preemptions_(max_preemptions) {}

  // Runs all bodies under the current schedule, until they have ended or all remaining ones are blocked.
  void Run(std::vector<std::function<void()>> bodies) {
    threads_.clear();
    running_ = 0;
    preemptions_ = 0;
    depth_ = 0;
    deadlocked_ = false;
    for (std::function<void()>& body : bodies)
      threads_.emplace_back(stacks_, [this, body = std::move(body)] {
        try {
          body();
        } catch (const Deadlock&) {
          return;
        }
        threads_[running_].finished = true;
        Choose();
      });
    while (!deadlocked_ && !threads_[running_].finished) threads_[running_].fiber.Resume();
    // Resumes the threads that are blocked forever. BlockUntil throws a Deadlock in them, so that they end.
    for (Thread& thread : threads_)
      if (!thread.fiber.ended()) thread.fiber.Resume();
    deadlocks_ += deadlocked_;
    ++schedules_;
  }

  // Selects the next schedule in depth-first order. Returns false when all schedules have been tried.
  bool NextSchedule() {
    path_.resize(depth_);
    while (!path_.empty() && path_.back().chosen + 1 == path_.back().options) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().chosen;
    return true;
  }

  int schedules() const { return schedules_; }
  int deadlocks() const { return deadlocks_; }

  // ---- for code that Run executes ----

  // The index of the calling thread.
  std::size_t self() const { return running_; }
  // Returns a value below `options`. Over all schedules every value is tried.
  std::size_t Pick(std::size_t options) {
    if (options == 1) return 0;
    if (depth_ == path_.size()) path_.push_back({0, options});
    return path_[depth_++].chosen;
  }

  // A point at which another thread may run first.
  void Step() { BlockUntil(nullptr); }

  // Blocks the calling thread until `condition` returns true. `condition` is called while no thread runs.
  void BlockUntil(std::function<bool()> condition) {
    Thread& self = threads_[running_];
    self.condition = std::move(condition);
    Choose();
    if (!deadlocked_ && &self != &threads_[running_]) self.fiber.Suspend();
    if (deadlocked_) throw Deadlock();
    self.condition = nullptr;
  }

 private:
  struct Deadlock {};
  struct Thread {
    Thread(simulation::FiberStacks& stacks, std::function<void()> body) : fiber(stacks, std::move(body)) {}
    bool CanRun() const { return !finished && (!condition || condition()); }

    simulation::Fiber fiber;
    bool finished = false;
    std::function<bool()> condition;
  };
  struct Choice {
    std::size_t chosen;
    std::size_t options;
  };

  // Decides which thread runs next. The current thread is tried first, so the first schedule has no preemption.
  void Choose() {
    if (deadlocked_) return;
    std::vector<std::size_t> options;
    const bool goes_on = threads_[running_].CanRun();
    if (goes_on) options.push_back(running_);
    if (!goes_on || preemptions_ < max_preemptions_)
      for (std::size_t id = 0; id < threads_.size(); ++id)
        if (id != running_ && threads_[id].CanRun()) options.push_back(id);
    if (options.empty()) {
      for (const Thread& thread : threads_) deadlocked_ = deadlocked_ || !thread.finished;
      return;
    }
    if (depth_ == path_.size()) path_.push_back({0, options.size()});
    const std::size_t next = options[path_[depth_++].chosen];
    if (goes_on && next != running_) ++preemptions_;
    running_ = next;
  }

  const int max_preemptions_;
  simulation::FiberStacks stacks_;
  std::deque<Thread> threads_;  // a deque, because fibers must not move
  std::size_t running_ = 0;
  int preemptions_ = 0;
  std::size_t depth_ = 0;  // number of choices made in this run so far
  bool deadlocked_ = false;

  std::vector<Choice> path_;
  int schedules_ = 0;
  int deadlocks_ = 0;
};

// An atomic for which every operation is a step.
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
  T value_;
};

}  // namespace rondo
