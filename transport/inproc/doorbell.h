// How a publisher wakes a sleeping owner: a state word and an eventfd that is touched only when somebody sleeps.
//
// No wake-up is lost (Dekker's argument). The owner stores "armed" and then loads what might have been published; a
// publisher stores what it publishes and then loads the state. All four are sequentially consistent, so in their single
// total order either the publisher's store precedes the owner's load, and the owner sees it and does not sleep; or the
// owner's load, and with it its store of "armed", precedes the publisher's load, and the publisher rings. (Not fences,
// which would do as well, because the thread sanitizer understands only operations.)
//
// Each ring is exactly one post of the signal, and the Disarm after it exactly one take, so no stale signal is left.
//
// The atomic and the signal are parameters, so that doorbell_test.cc can take this very code through every order of its
// steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace rondo {

enum class DoorbellState : std::uint8_t { kAwake, kArmed, kRung };

// Signal: Post() from a publisher, Take() waits for one Post, which is done or on its way.
template <typename AtomicState, typename Signal>
class BasicDoorbell {
 public:
  BasicDoorbell(AtomicState state, Signal signal) : state_(std::move(state)), signal_(std::move(signal)) {}
  BasicDoorbell() requires std::is_default_constructible_v<Signal> : state_(DoorbellState::kAwake) {}

  // ---- the owner: one thread at a time ----

  // Announces a sleeper. True if the bell was rung since the last Disarm, so that sleeping is pointless. Afterwards the
  // owner looks at everything that is published once more (memory_order_seq_cst), and may sleep if there is nothing.
  bool Arm() {
    DoorbellState expected = DoorbellState::kAwake;
    state_.compare_exchange_strong(expected, DoorbellState::kArmed, std::memory_order_seq_cst);
    return expected == DoorbellState::kRung;
  }

  void Disarm() {
    DoorbellState expected = DoorbellState::kArmed;
    if (state_.compare_exchange_strong(expected, DoorbellState::kAwake, std::memory_order_seq_cst)) return;
    if (expected == DoorbellState::kAwake) return;
    signal_.Take();
    state_.store(DoorbellState::kAwake, std::memory_order_seq_cst);
  }

  Signal& signal() { return signal_; }
  const Signal& signal() const { return signal_; }

  // ---- any thread ----

  // REQUIRES: what the owner is to see was stored before with memory_order_seq_cst.
  void Ring() {
    if (state_.load(std::memory_order_seq_cst) == DoorbellState::kArmed) [[unlikely]]
      RingSleeper();
  }

 private:
  void RingSleeper() {
    DoorbellState expected = DoorbellState::kArmed;
    if (state_.compare_exchange_strong(expected, DoorbellState::kRung, std::memory_order_seq_cst)) signal_.Post();
  }

  AtomicState state_;
  Signal signal_;
};

// A signal that a thread can poll for.
class EventFd {
 public:
  EventFd() = default;
  ~EventFd() { Close(); }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  // kResource when the process has no descriptor left.
  Status Open();
  void Close();
  int fd() const { return fd_; }  // readable after Post, until Take; -1 before Open and after Close

  // REQUIRES: open.
  void Post();
  void Take();  // blocks until there was a Post: for the few instructions that it is on its way

 private:
  int fd_ = -1;
};

// Open its signal before the first Arm. To close it, Disarm first: afterwards no publisher is on its way to it.
using Doorbell = BasicDoorbell<std::atomic<DoorbellState>, EventFd>;

}  // namespace rondo
