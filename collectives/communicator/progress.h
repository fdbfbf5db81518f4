// Who advances the pending operations of a communicator, and how a thread waits for one of them.
//
// A thread that waits advances everything itself, first spinning, then yielding, then asleep in the kernel. A progress
// thread advances what no thread waits for. One thread at a time is the owner: the one that holds the progress lock.
//
// Thread rules: Advance... and what a ProgressSource does for the owner need the progress lock; all other methods may
// be called by any thread. What is advanced is behind ProgressSource, so tests/communicator/progress_test.cc has it all
// on a clock that it moves.
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

// What a thread waits for. A reference to a callable that outlives the call it is handed to; never allocates.
class Condition {
 public:
  template <typename F>
  Condition(const F& holds)  // NOLINT(google-explicit-constructor): a lambda at the call is the point
      : object_(&holds), call_([](const void* object) { return (*static_cast<const F*>(object))(); }) {}
  bool operator()() const { return call_(object_); }

 private:
  const void* object_;
  bool (*call_)(const void*);
};

// The pending operations, as a ProgressLoop sees them. Only the owner calls these methods, except the last group.
class ProgressSource {
 public:
  struct Advanced {
    Sequence issued = 0;  // operations that were issued before it began
    bool moved = false;
    AwaitedRanks awaited = AwaitedRanks::kUnknown;  // if nothing moved
  };
  enum class BeforeSleep : std::uint8_t {
    kSleep,  // nothing moved
    kAgain,  // something moved
    kYield,  // something moves that would not wake a sleeper
  };

  // Moves every operation as far as it goes now.
  virtual Advanced Advance() = 0;
  // Nothing has moved. Whether something could move in the next moment; takes less time than reading a clock.
  virtual bool Glance() = 0;
  // Nothing has moved. Looks for failures and deadlines; true if it found one. `waited`: as in DriveUntil.
  virtual bool CheckWhileBlocked(TimePoint now, Sequence waited) = 0;
  // Something moves all the time.
  virtual void CheckWhileMoving(TimePoint now, Sequence waited) = 0;
  // The process did not run for so long.
  virtual void OnPause(Duration pause) = 0;
  // The thread is about to sleep: the last look at what Advance looks at only now and then.
  virtual BeforeSleep PrepareToSleep() = 0;
  // From Arm to Disarm the endpoint wakes a sleeper. Arm looks again: whether there is something already.
  virtual bool Arm() = 0;
  virtual void Disarm() = 0;
  // When a sleeper should look, though nothing has woken it.
  virtual TimePoint WakeTime(TimePoint now) = 0;

  // ---- any thread ----
  virtual void Sleep(int kick_fd, TimePoint until) = 0;
  // Whether anything was submitted that an Advance with this `issued` did not see.
  virtual bool HasWorkSince(Sequence issued) const = 0;
  virtual Sequence issued() const = 0;
  // Whether what was issued up to `last` has ended, and all else that was submitted.
  virtual bool HasEnded(Sequence last) const = 0;
  // Whether anything is pending.
  virtual bool HasWork() const = 0;
  // Calls the callbacks that are due, if there are any. The caller does not hold the progress lock.
  virtual void RunCallbacks() = 0;

 protected:
  ~ProgressSource() = default;
};

struct ProgressOptions {
  WaitPolicy policy;
  WaitPolicy shared_core_policy;  // while others are found to want the core
  bool has_thread = true;         // a progress thread, made when it is first needed
  // The owner reads the clock more often than this. A longer time between two reads means that the process did not run
  // (Waiter::SeesPauses).
  Duration pause = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::milliseconds(100);
};

class ProgressLoop {
 public:
  // All references outlive it. The source is first used by the first thread that enters.
  ProgressLoop(const ProgressOptions& options, ProgressSource& source, const Callbacks& callbacks, const Clock& clock,
               Waiter& waiter);
  ~ProgressLoop();
  ProgressLoop(const ProgressLoop&) = delete;
  ProgressLoop& operator=(const ProgressLoop&) = delete;

  const WaitPolicy& policy() const { return options_.policy; }

  // ---- waiting ----
  // Waits until `ready()`, which gives true, or until `until`, which gives false. Meanwhile this thread advances all
  // operations; or it parks while another thread does that. Then `ready` is called with a lock held, and must change
  // nothing. `waited`: the operation whose end this thread waits for; 0: none. The owner calls `step` after each
  // Advance.
  static constexpr auto kNoStep = [] { return false; };
  bool DriveUntil(TimePoint until, Sequence waited, Condition ready, Condition step = kNoStep);

  // ---- ownership ----
  ProgressLock& lock() RONDO_RETURNS_LOCK(lock_) { return lock_; }
  const ProgressLock& lock() const RONDO_RETURNS_LOCK(lock_) { return lock_; }
  // Becomes the owner; waits until the present owner leaves.
  void Enter() RONDO_ACQUIRES(lock_);
  // As lock().Leave, with work for the progress thread if there is any.
  void Leave() RONDO_RELEASES(lock_) { lock_.Leave(source_.HasWork()); }

  // ---- the progress thread ----
  // Tells the progress thread of new work, because perhaps no other thread waits for that work and so advances it.
  // Makes the thread if there is none; kResource or kOutOfMemory if it cannot be made.
  Status CallThread();
  // Ends it, at once. Afterwards there is none.
  void StopThread();
  bool has_thread() const { return thread_.joinable(); }

  // ---- the owner ----
  // Reads the clock. last_look() is the time of the last read by any thread.
  TimePoint Look() {
    looked_ = true;
    return last_look_ = clock_.Now();
  }
  TimePoint last_look() const { return last_look_; }
  // A time that another thread has read.
  void OnLook(TimePoint at) {
    if (at > last_look_) last_look_ = at;
  }
  void Disarm();
  bool is_armed() const { return armed_; }
  // The endpoint that would wake a sleeper is destroyed.
  void ForgetArmed() { armed_ = false; }
  // Whether a thread polls before it gives its core away.
  bool spins() const { return options_.policy.spin > Duration::zero() && !contention_.is_wanted(); }

 private:
  // Gives up the lock in every way out.
  void Drive(TimePoint until, Sequence waited, bool background, Condition ready, Condition step) RONDO_RELEASES(lock_);
  WaitPolicy PolicyFor(AwaitedRanks awaited) const;
  void Yield();
  void RunThread();
  // Returns when no thread has waited for a while.
  void StandBack();

  const ProgressOptions options_;
  ProgressSource& source_;
  const Callbacks& callbacks_;
  const Clock& clock_;
  Waiter& waiter_;
  ProgressLock lock_;

  // The owner's.
  CpuContentionDetector contention_;
  TimePoint last_look_{};
  bool looked_ = false;  // since the last Advance began
  bool armed_ = false;

  std::atomic<int> waiters_{0};          // threads in DriveUntil; the progress thread gives way to them
  std::atomic<std::uint64_t> waits_{0};  // begun so far: whether a thread waits now and then
  std::uint64_t waits_seen_ = 0;         // the progress thread's
  std::atomic<bool> thread_runs_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rondo
