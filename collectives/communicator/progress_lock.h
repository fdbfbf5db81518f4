// Who may advance a communicator, when several threads wait at once.
//
// Ownership is one atomic flag, never held while blocked. A thread that wants something done enters, advances all
// pending operations, and leaves. A thread that finds the lock held parks until what it waits for is final, or until
// the lock is free. Of the threads that would sleep in the kernel at most one does (the sleeper); the others park, and
// are notified when the sleeper or an owner leaves.
//
// The handshakes are Dekker's: one side writes its flag, then reads the other's, both sequentially consistent, so at
// least one of two that cross sees the other. An uncontended pass costs two atomic operations and no system call.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_annotations.h"

namespace rondo {

class RONDO_LOCKABLE("progress lock") ProgressLock {
 public:
  ProgressLock();
  ~ProgressLock();
  ProgressLock(const ProgressLock&) = delete;
  ProgressLock& operator=(const ProgressLock&) = delete;

  // Becomes the owner if there is none. What earlier owners did is visible to this one.
  bool TryEnter() RONDO_TRY_ACQUIRES(true) { return !held_.exchange(true); }
  // Whether there is an owner, at the moment.
  bool IsHeld() const { return held_.load(); }
  // Gives up ownership: parked threads and the sleeper look again; a thread in ParkUntil only if there is `work` left
  // for it, because a notification costs a system call or two.
  void Leave(bool work) RONDO_RELEASES();
  // Wakes the parked threads and the sleeper, because something became final; with `work`, those in ParkUntil, too.
  void Announce(bool work = true);

  // Gives up ownership to sleep in the kernel. True: the caller is now the sleeper, and calls EndSleep when it wakes.
  // False: another thread is the sleeper already, so the caller parks. REQUIRES: the endpoint is armed.
  bool LeaveToSleep() RONDO_RELEASES();
  void EndSleep();
  // Becomes readable when the sleeper should look again.
  int kick_fd() const { return kick_fd_; }  // below 0: there is none, for the reason in kick_error
  int kick_error() const { return kick_error_; }

  // Parks until `ready()`, or until there is neither an owner nor a sleeper, or until `deadline`.
  template <typename Ready>
  void Park(TimePoint deadline, Ready ready) {
    const MutexLock lock(mutex_);
    parked_.fetch_add(1);
    while ((held_.load() || sleeping_.load()) && !ready())
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    parked_.fetch_sub(1);
  }

  // Parks until `ready()`, whether or not there is an owner; for a thread that only works when others do not.
  template <typename Ready>
  void ParkUntil(Ready ready) {
    const MutexLock lock(mutex_);
    parked_until_.fetch_add(1);
    while (!ready()) changed_.Wait(mutex_);
    parked_until_.fetch_sub(1);
  }

  // Parks for `time`, or until `ready()` if other threads announce something meanwhile; they do not pay for announcing
  // it to this thread.
  template <typename Ready>
  void Rest(Duration time, Ready ready) {
    const MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, time, ready);
  }

 private:
  std::atomic<bool> held_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<int> parked_{0};
  std::atomic<int> parked_until_{0};
  Mutex mutex_;  // of threads that park; guards no data
  ConditionVariable changed_;
  int kick_fd_;
  int kick_error_ = 0;  // errno
};

}  // namespace rondo
