// The doorbells of a segment. They work as in transport/doorbell.h, with the state in shared memory and an eventfd
// whose descriptor the peers also have.
//
// They differ from a doorbell within one process in two ways. First, all lanes of an endpoint share one eventfd.
// Second, a publisher may die between its two steps (it sets the state, then posts). So Take never waits, and a late or
// missing post causes at most one needless wake-up. An owner that finds the state "rung" does not sleep, even without a
// post.
#pragma once

#include <atomic>

#include "base/net/fd.h"
#include "transport/doorbell.h"

namespace rondo::shm {

class SharedState {
 public:
  explicit SharedState(std::atomic<DoorbellState>& state) : state_(&state) {}
  DoorbellState load(std::memory_order order) const { return state_->load(order); }
  void store(DoorbellState value, std::memory_order order) { state_->store(value, order); }
  bool compare_exchange_strong(DoorbellState& expected, DoorbellState value, std::memory_order order) {
    return state_->compare_exchange_strong(expected, value, order);
  }

 private:
  std::atomic<DoorbellState>* state_;
};

// A non-blocking eventfd that another object owns.
class EventFdRef {
 public:
  explicit EventFdRef(int fd) : fd_(fd) {}
  void Post();
  void Take();  // removes all posts, if there are any

 private:
  int fd_;
};

using SharedDoorbell = BasicDoorbell<SharedState, EventFdRef>;

}  // namespace rondo::shm
