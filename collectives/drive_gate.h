// Who drives the engine of a communicator, when several threads wait at once.
//
// Ownership is one atomic flag, never held while blocked. A thread that wants something done enters, drives, and
// leaves. A thread that finds the gate taken parks until what it wants is final or the gate is free. Of the threads
// that would sleep in the kernel at most one does (the sleeper); the others park, and are told when the sleeper or an
// owner leaves.
//
// The handshakes are Dekker's: one side writes its flag, then reads the other's, both sequentially consistent, so at
// least one of two that cross sees the other. An uncontended pass costs two atomic operations and no system call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace rondo {

class DriveGate {
 public:
  DriveGate();
  ~DriveGate();
  DriveGate(const DriveGate&) = delete;
  DriveGate& operator=(const DriveGate&) = delete;

  // Becomes the owner if nobody is. What earlier owners did is visible to this one.
  bool TryEnter() { return !held_.exchange(true); }
  // Whether somebody is, at the moment.
  bool IsHeld() const { return held_.load(); }
  // Gives ownership up for good: parked threads and the sleeper look again; who parks by ParkUntil only if there is
  // `work` left for it, for it costs a system call or two to be told.
  void Leave(bool work);
  // Tells them that something became final, or that there is work.
  void Announce(bool work = true);

  // Gives ownership up to sleep in the kernel. True: the caller is the sleeper and calls EndSleep after; false:
  // somebody sleeps already, park instead. REQUIRES: ownership, the endpoint armed.
  bool LeaveToSleep();
  void EndSleep();
  // Becomes readable when the sleeper should look again.
  int kick_fd() const { return kick_fd_; }  // below 0: there is none, for the reason in kick_error
  int kick_error() const { return kick_error_; }

  // Parks until `ready()`, or until nobody owns or sleeps, or until `deadline`.
  template <typename Ready>
  void Park(TimePoint deadline, Ready ready) {
    std::unique_lock lock(mutex_);
    parked_.fetch_add(1);
    while ((held_.load() || sleeping_.load()) && !ready())
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) break;
    parked_.fetch_sub(1);
  }

  // Parks until `ready()`, whoever owns; for a thread that only works when others do not.
  template <typename Ready>
  void ParkUntil(Ready ready) {
    std::unique_lock lock(mutex_);
    parked_until_.fetch_add(1);
    changed_.wait(lock, ready);
    parked_until_.fetch_sub(1);
  }

  // Parks for so long, or until `ready()` as far as others announce something meanwhile; nobody pays for announcing to
  // this one.
  template <typename Ready>
  void Rest(Duration time, Ready ready) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, ready);
  }

 private:
  std::atomic<bool> held_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<int> parked_{0};
  std::atomic<int> parked_until_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  int kick_fd_;
  int kick_error_ = 0;  // errno
};

}  // namespace rondo
