// How a publisher wakes a sleeping owner: by a state word, and by an eventfd that is used only while the owner sleeps.
//
// No wake-up is lost (Dekker's argument). The owner stores "armed" and then loads what might have been published. A
// publisher stores what it publishes and then loads the state. All four operations are sequentially consistent, so they
// have a single total order. If the publisher's store precedes the owner's load, the owner sees the published value and
// does not sleep. Otherwise the owner's load, and therefore its earlier store of "armed", precedes the publisher's
// load, so the publisher rings. Fences would also work, but the thread sanitizer understands only atomic operations.
//
// At most one call of Ring posts the signal after each Arm, and the next Disarm takes that signal. So no stale signal
// remains, if Take waits for the post.
//
// The atomic and the signal are parameters, so that doorbell_test.cc can run this code through every order of its
// steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/net/fd.h"
#include "base/result.h"

namespace rondo {

enum class DoorbellState : std::uint8_t { kAwake, kArmed, kRung };

// `Signal` must have Post(), which a publisher calls, and Take(), which removes all posts. The Take of EventFd waits
// for a post; the Take in shared_doorbell.h does not.
template <typename AtomicState, typename Signal>
class BasicDoorbell {
 public:
  BasicDoorbell(AtomicState state, Signal signal) : state_(std::move(state)), signal_(std::move(signal)) {}
  BasicDoorbell() requires std::is_default_constructible_v<Signal> : state_(DoorbellState::kAwake) {}

  // ---- the owner: one thread at a time ----

  // Announces that the owner will sleep. True: the doorbell was rung since the latest Disarm, so the owner must not
  // sleep. After false the owner must load all published values once more (memory_order_seq_cst), and may sleep if
  // nothing is new.
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

  // REQUIRES: everything that the owner must see was stored before with memory_order_seq_cst.
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

// The Signal of a Doorbell: an eventfd, which a thread can poll.
class EventFd {
 public:
  // kResource: no file descriptor is available.
  Status Open();
  void Close() { fd_.Close(); }
  int fd() const { return fd_.get(); }  // readable after Post, until Take; -1 before Open and after Close

  // REQUIRES: open.
  void Post();
  void Take();  // blocks until the signal is posted; Disarm waits here only for a publisher that is just about to post

 private:
  Fd fd_;
};

// The owner must open the signal before the first Arm. It must disarm before it closes the signal, because no publisher
// posts after Disarm.
using Doorbell = BasicDoorbell<std::atomic<DoorbellState>, EventFd>;

}  // namespace rondo
