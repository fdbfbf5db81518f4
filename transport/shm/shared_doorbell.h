// The bells of a segment: transport/doorbell.h with its state word in shared memory and its signal an eventfd
// that peers hold a copy of.
//
// Two things differ from a bell within one process. All lanes of an endpoint share one signal, and a ringer may die
// between its two steps, so Take never waits: a signal that comes late, or from nobody who is left, is a needless
// wake-up and nothing worse. And an owner whose word says "rung" without a signal having come is not asleep.
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

// An eventfd that does not block.
class EventFdRef {
 public:
  explicit EventFdRef(int fd) : fd_(fd) {}
  void Post();
  void Take();  // takes back whatever was posted

 private:
  int fd_;
};

using SharedDoorbell = BasicDoorbell<SharedState, EventFdRef>;

}  // namespace rondo::shm
