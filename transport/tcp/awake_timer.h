// A timer that does not count the time for which this process was stopped (Ctrl-Z, SIGSTOP).
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <utility>

#include "base/awake_clock.h"
#include "base/clock.h"

namespace rondo::tcp {

// Like asio::steady_timer, but it waits in slices of at most AwakeClock::kTick. If a slice ends much too late, this
// process was stopped in between, and perhaps its peers were, too. Then only the length of the slice counts.
// Thread rule: only the thread that runs `io`. REQUIRES: the handler keeps the timer alive.
class AwakeTimer {
 public:
  explicit AwakeTimer(asio::io_context& io) : timer_(io) {}

  // Sets the time and cancels the present wait.
  void expires_after(Duration time) {
    cancel();
    left_ = time;
  }

  // Calls `handler` once: when the time has passed, or with operation_aborted after cancel or expires_after.
  template <typename Handler>
  void async_wait(Handler handler) {
    WaitForSlice(wait_, std::move(handler));
  }

  void cancel() {
    ++wait_;
    timer_.cancel();
  }

 private:
  template <typename Handler>
  void WaitForSlice(std::uint64_t wait, Handler handler) {
    const Duration slice = std::min<Duration>(left_, AwakeClock::kTick);
    timer_.expires_after(slice);
    timer_.async_wait([this, wait, slice, due = timer_.expiry(),
                       handler = std::move(handler)](const asio::error_code& error) mutable {
      if (error) return handler(error);
      if (wait != wait_) return handler(asio::error::operation_aborted);  // cancelled after the slice had ended
      const Duration took = slice + (asio::steady_timer::clock_type::now() - due);
      left_ -= took < AwakeClock::kGap ? took : slice;
      if (left_ <= Duration::zero()) return handler(error);
      WaitForSlice(wait, std::move(handler));
    });
  }

  asio::steady_timer timer_;
  Duration left_ = Duration::zero();
  std::uint64_t wait_ = 0;  // counts the calls of cancel, so that a slice's handler notices that it was cancelled
};

}  // namespace rondo::tcp
