// Decides which thread may advance a communicator if several threads wait at once.
//
// Ownership is one atomic flag, and no thread holds it while it is blocked. A thread that needs progress takes the
// lock, advances all pending operations, and releases the lock. If another thread holds the lock, a thread parks until
// the result that it waits for is final, or until the lock is free. At most one waiting thread sleeps in the kernel
// (the sleeper). The others park, and are notified when the sleeper wakes up and leaves, or when an owner leaves.
//
// Each handshake between two threads follows Dekker: a thread writes its own flag, then reads the other's, both
// sequentially consistent. So if two threads do so at the same time, at least one of them sees the other's flag. Taking
// and releasing a free lock costs two atomic operations and no system call.
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

  // Becomes the owner if there is none. The new owner sees all that earlier owners wrote.
  bool TryEnter() RONDO_TRY_ACQUIRES(true) { return !held_.exchange(true); }
  // Returns whether a thread owns the lock at the moment.
  bool IsHeld() const { return held_.load(); }
  // Gives up ownership. Parked threads and the sleeper check their conditions again. `work`: operations remain that
  // threads in ParkUntil must advance. If `work` is false, threads in ParkUntil are not notified, because that costs a
  // system call or two.
  void Leave(bool work) RONDO_RELEASES();
  // Wakes the parked threads and the sleeper, for example when an operation became final. If `work` is true, it also
  // wakes threads in ParkUntil.
  void Announce(bool work = true);

  // Gives up ownership in order to sleep in the kernel. True: the caller is now the sleeper, and must call EndSleep
  // when it wakes. False: another thread is the sleeper already, so the caller must park. REQUIRES: the endpoint is
  // armed.
  bool LeaveToSleep() RONDO_RELEASES();
  void EndSleep();
  // A descriptor that becomes readable when the sleeper must check its condition again.
  int kick_fd() const { return kick_fd_; }  // negative: the descriptor could not be made, for the reason in kick_error
  int kick_error() const { return kick_error_; }

  // Parks until `ready()` is true, until there is neither an owner nor a sleeper, or until `deadline`.
  template <typename Ready>
  void Park(TimePoint deadline, Ready ready) {
    const MutexLock lock(mutex_);
    parked_.fetch_add(1);
    while ((held_.load() || sleeping_.load()) && !ready())
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    parked_.fetch_sub(1);
  }

  // Parks until `ready()` is true, whether or not there is an owner. It is for a thread that works only if no other
  // thread does.
  template <typename Ready>
  void ParkUntil(Ready ready) {
    const MutexLock lock(mutex_);
    parked_until_.fetch_add(1);
    while (!ready()) changed_.Wait(mutex_);
    parked_until_.fetch_sub(1);
  }

  // Parks until `time` has passed, or until another thread announces something and `ready()` is then true. No thread
  // makes a system call only to notify a thread that is parked here.
  template <typename Ready>
  void ParkFor(Duration time, Ready ready) {
    const MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, time, ready);
  }

 private:
  std::atomic<bool> held_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<int> parked_{0};
  std::atomic<int> parked_until_{0};
  Mutex mutex_;  // for the condition variable; guards no data
  ConditionVariable changed_;
  int kick_fd_;
  int kick_error_ = 0;  // errno
};

}  // namespace rondo
