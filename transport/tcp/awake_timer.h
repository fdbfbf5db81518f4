// A timer that does not count the time for which this process was stopped (Ctrl-Z, SIGSTOP).
#pragma once

#include <asio/steady_timer.hpp>
#include <utility>

#include "base/clock.h"

namespace rondo::tcp {

// Like asio::steady_timer, but restarts if it expires more than a second late. Then this process was stopped in
// between, and perhaps its peers were, too. REQUIRES: the handler keeps the timer alive.
class AwakeTimer : public asio::steady_timer {
 public:
  using asio::steady_timer::steady_timer;

  void expires_after(Duration time) {
    time_ = time;
    asio::steady_timer::expires_after(time);
  }

  template <typename Handler>
  void async_wait(Handler handler) {
    asio::steady_timer::async_wait([this, handler = std::move(handler)](const asio::error_code& error) mutable {
      constexpr Duration kLate = std::chrono::seconds(1);
      if (error || clock_type::now() - expiry() < kLate) return handler(error);
      expires_after(time_);
      async_wait(std::move(handler));
    });
  }

 private:
  Duration time_ = Duration::zero();
};

}  // namespace rondo::tcp
