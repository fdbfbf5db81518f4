// Decides which thread advances the pending operations of a communicator, and how a thread waits for one of them.
//
// A waiting thread advances all operations itself: first it spins, then it yields, then it sleeps in the kernel. A
// progress thread advances operations that no thread waits for. One thread at a time is the owner: it holds the
// progress lock.
//
// Thread rules: the methods under "the owner", and those of a ProgressSource that are not under "any thread", need the
// progress lock. Any thread may call all other methods. The operations are behind the interface ProgressSource, so that
// tests/communicator/progress_test.cc can test a ProgressLoop on a clock that the test moves.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/communicator/callbacks.h"
#include "collectives/communicator/cpu_contention.h"
#include "collectives/communicator/progress_lock.h"
#include "collectives/communicator/wait_policy.h"
#include "collectives/communicator/waiter.h"
#include "collectives/engine/awaited_ranks.h"

namespace rondo {

// The condition that a thread waits for: a reference to a callable, which must outlive the call that gets it. Never
// allocates.
class Condition {
 public:
  template <typename F>
  Condition(const F& holds)  // NOLINT(google-explicit-constructor): so that a call can pass a lambda
      : object_(&holds), call_([](const void* object) { return (*static_cast<const F*>(object))(); }) {}
  bool operator()() const { return call_(object_); }

 private:
  const void* object_;
  bool (*call_)(const void*);
};

// The interface through which a ProgressLoop uses the pending operations. Only the owner calls these methods, except
// those under "any thread".
class ProgressSource {
 public:
  struct Advanced {
    Sequence issued = 0;  // number of operations issued before this Advance began
    bool moved = false;
    AwaitedRanks awaited = AwaitedRanks::kUnknown;  // on which cores the awaited ranks run; only set if nothing moved
  };
  enum class BeforeSleep : std::uint8_t {
    kSleep,  // nothing moved
    kAgain,  // something moved
    kYield,  // something moves, but its end would wake no sleeping thread
  };

  // Advances every operation as far as possible without waiting.
  virtual Advanced Advance() = 0;
  // Called if nothing has moved. Returns whether something may move very soon. Takes less time than reading a clock.
  virtual bool Glance() = 0;
  // Called if nothing has moved. Looks for failures and passed deadlines; returns true if it found one. `waited`: as in
  // AdvanceUntil.
  virtual bool CheckWhileBlocked(TimePoint now, Sequence waited) = 0;
  // Called now and then while something moves all the time. Looks for passed deadlines only.
  virtual void CheckWhileMoving(TimePoint now, Sequence waited) = 0;
  // Called if the process did not run for most of the time from `begin` to `end`.
  virtual void OnPause(TimePoint begin, TimePoint end) = 0;
  // Called before the thread sleeps: checks the sources that Advance checks only now and then.
  virtual BeforeSleep PrepareToSleep() = 0;
  // Between Arm and Disarm the endpoint wakes a sleeping thread. Arm returns true if there already is something to do.
  virtual bool Arm() = 0;
  virtual void Disarm() = 0;
  // The time at which a sleeping thread must check again, even if nothing has woken it.
  virtual TimePoint WakeTime(TimePoint now) = 0;

  // ---- any thread ----
  virtual void Sleep(int kick_fd, TimePoint until) = 0;
  // Returns whether anything was submitted that was too late for the Advance that returned `issued`.
  virtual bool HasWorkSince(Sequence issued) const = 0;
  virtual Sequence issued() const = 0;
  // Returns whether all operations up to `last`, and all submitted messages, have ended.
  virtual bool HasEnded(Sequence last) const = 0;
  // Returns whether anything is pending.
  virtual bool HasWork() const = 0;
  // Calls the user callbacks that are due. The caller must not hold the progress lock.
  virtual void RunCallbacks() = 0;

 protected:
  ~ProgressSource() = default;
};

struct ProgressOptions {
  WaitPolicy policy;
  WaitPolicy shared_core_policy;  // used while other threads or processes compete for the core
  bool has_thread = true;         // whether there is a progress thread; it is made when it is first needed
  // While anything is pending, the owner reads the clock more often than this. A longer time between two reads means
  // that the process did not run. Only used with a waiter that detects pauses (Waiter::SeesPauses).
  Duration pause = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::milliseconds(100);
};

class ProgressLoop {
 public:
  // All references outlive the loop. The loop first uses `source` when a thread first becomes the owner.
  ProgressLoop(const ProgressOptions& options, ProgressSource& source, const Callbacks& callbacks, const Clock& clock,
               Waiter& waiter);
  ~ProgressLoop();
  ProgressLoop(const ProgressLoop&) = delete;
  ProgressLoop& operator=(const ProgressLoop&) = delete;

  const WaitPolicy& policy() const { return options_.policy; }

  // ---- waiting ----
  // Waits until `ready()` is true, and returns true. If the time `until` passes first, returns false. A pause during
  // the wait postpones `until` by its length. Meanwhile this thread advances all operations; while another thread does
  // so, this thread parks. A parked thread calls `ready` with a lock held, so `ready` must change nothing. `waited`:
  // the operation whose end this thread waits for; 0: none. The owner calls `step` after each Advance.
  static constexpr auto kNoStep = [] { return false; };
  bool AdvanceUntil(TimePoint& until, Sequence waited, Condition ready, Condition step = kNoStep);
  bool AdvanceUntil(TimePoint&& until, Sequence waited, Condition ready, Condition step = kNoStep) {
    return AdvanceUntil(until, waited, ready, step);
  }

  // ---- ownership ----
  ProgressLock& lock() RONDO_RETURNS_LOCK(lock_) { return lock_; }
  const ProgressLock& lock() const RONDO_RETURNS_LOCK(lock_) { return lock_; }
  // Becomes the owner; waits until the present owner has released the lock.
  void Enter() RONDO_ACQUIRES(lock_);
  // Releases the progress lock as lock().Leave does. Notifies the progress thread only if work is left.
  void Leave() RONDO_RELEASES(lock_) { lock_.Leave(source_.HasWork()); }

  // ---- the progress thread ----
  // Notifies the progress thread of new work, which otherwise is advanced only if a thread waits for it. Makes the
  // progress thread if there is none; kResource or kOutOfMemory if it cannot be made. Does nothing without has_thread.
  Status CallThread();
  // Ends the progress thread without waiting for pending operations. Afterwards there is none.
  void StopThread();
  bool has_thread() const { return thread_.joinable(); }

  // ---- the owner ----
  // Reads the clock. last_look() returns the latest time that Look or OnLook has noted.
  TimePoint Look() {
    looked_ = true;
    return last_look_ = clock_.Now();
  }
  TimePoint last_look() const { return last_look_; }
  // Notes that another thread has read the clock at time `at`.
  void OnLook(TimePoint at) {
    if (at > last_look_) last_look_ = at;
  }
  // Notes that the process ran at the time `now`, so that the time before it is no pause.
  void OnSeenRunning(TimePoint now) { seen_running_at_ = now; }
  void Disarm();
  bool is_armed() const { return armed_; }
  // Must be called when the endpoint is destroyed, because there is nothing to disarm afterwards.
  void ForgetArmed() { armed_ = false; }
  // Whether a waiting thread polls for a while before it gives its core away.
  bool spins() const { return options_.policy.spin > Duration::zero() && !contention_.is_wanted(); }

 private:
  struct Wait {
    TimePoint begin;   // not needed if the wait has no end
    TimePoint& until;  // TimePoint::max(): the wait has no end
  };
  // Advances operations until `ready` is true or until the time `wait.until`. The lock is released on every return.
  void AdvanceLoop(const Wait& wait, Sequence waited, bool background, Condition ready, Condition step)
      RONDO_RELEASES(lock_);
  // Detects a pause before the time `now`, and extends the time of the pending operations and of the wait by its
  // length.
  void CheckForPause(TimePoint now, const Wait& wait);
  WaitPolicy PolicyFor(AwaitedRanks awaited) const;
  void Yield();
  void RunThread();
  // Keeps the progress thread idle while other threads wait often. Returns when for some time no other thread has begun
  // to wait.
  void StandBack();

  const ProgressOptions options_;
  ProgressSource& source_;
  const Callbacks& callbacks_;
  const Clock& clock_;
  Waiter& waiter_;
  ProgressLock lock_;

  // Only the owner uses the members from here to armed_.
  CpuContentionDetector contention_;
  TimePoint last_look_{};
  bool looked_ = false;        // whether the clock was read since the last Advance began
  TimePoint seen_running_at_;  // the last time at which an owner checked for a pause
  bool armed_ = false;

  std::atomic<int> waiters_{0};  // number of threads in AdvanceUntil; unless it is 0, the progress thread does nothing
  // number of waits begun so far, by which the progress thread sees that other threads wait
  std::atomic<std::uint64_t> waits_{0};
  std::uint64_t waits_seen_ = 0;  // the last value of waits_ that the progress thread has read
  std::atomic<bool> thread_runs_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rondo
