// How a publisher wakes a sleeping owner: a state word and an eventfd that is touched only when somebody sleeps.
//
// No wake-up is lost (Dekker's argument). The owner stores "armed" and then loads what might have been published; a
// publisher stores what it publishes and then loads the state. All four are sequentially consistent, so in their single
// total order either the publisher's store precedes the owner's load, and the owner sees it and does not sleep; or the
// owner's load, and with it its store of "armed", precedes the publisher's load, and the publisher rings.
//
// Each ring is exactly one write to the eventfd, and the Disarm after it exactly one read, so no stale signal is left.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/result.h"

namespace rondo {

class Doorbell {
 public:
  Doorbell() = default;
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // ---- the owner: one thread at a time ----

  // Makes the eventfd. kResource when the process has no descriptor left. Until then, and after Close, nobody can sleep
  // here and Ring does nothing.
  Status Open();
  void Close();
  // Announces a sleeper. True if the bell was rung since the last Disarm, so that sleeping is pointless.
  bool Arm();
  void Disarm();
  // Readable once rung. -1 before Open and after Close.
  int fd() const { return fd_; }

  // ---- any thread ----

  // REQUIRES: what the owner looks at after Arm was stored before with memory_order_seq_cst.
  void Ring() {
    if (state_.load(std::memory_order_seq_cst) == State::kArmed) [[unlikely]]
      RingSleeper();
  }

 private:
  enum class State : std::uint8_t { kAwake, kArmed, kRung };
  void RingSleeper();

  std::atomic<State> state_{State::kAwake};
  int fd_ = -1;  // constant while armed
};

}  // namespace rondo
