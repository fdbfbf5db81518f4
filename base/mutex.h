// A std::mutex with thread-safety annotations, so that clang can check its use. The standard library's mutex has no
// such annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/thread_annotations.h"

namespace rondo {

class RONDO_LOCKABLE("mutex") Mutex {
 public:
  void Lock() RONDO_ACQUIRES() { mutex_.lock(); }
  void Unlock() RONDO_RELEASES() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

class RONDO_SCOPED_LOCK MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RONDO_ACQUIRES(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RONDO_RELEASES() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class ConditionVariable {
 public:
  // The caller holds the mutex before and after these calls. They release it while they wait, and may wake spuriously.
  void Wait(Mutex& mutex) RONDO_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // Returns false if `deadline` has passed.
  bool WaitUntil(Mutex& mutex, TimePoint deadline) RONDO_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(lock, deadline) != std::cv_status::timeout;
    lock.release();
    return in_time;
  }
  // Waits until `ready()` is true or this much time has passed. `ready` is called with the mutex held.
  template <typename Ready>
  void WaitFor(Mutex& mutex, Duration time, Ready ready) RONDO_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_for(lock, time, ready);
    lock.release();
  }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace rondo
