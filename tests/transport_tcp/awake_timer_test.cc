// Tests the timer that does not count the time for which its process was stopped.
#include "transport/tcp/awake_timer.h"

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <thread>

namespace rondo::tcp {
namespace awake_timer_test {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

TEST_CASE("the time of a stop does not count, however long the stop is and whenever it comes") {
  // The thread that runs the timer sleeps, which has the same effect on the timer as a stop of the process.
  for (const milliseconds stopped : {milliseconds(350), milliseconds(700)}) {
    for (const milliseconds after : {milliseconds(0), milliseconds(150)}) {
      CAPTURE(stopped.count());
      CAPTURE(after.count());
      asio::io_context io;
      AwakeTimer timer(io);
      asio::steady_timer stop(io, after);
      stop.async_wait([&](const asio::error_code&) { std::this_thread::sleep_for(stopped); });
      const auto began = Steady::now();
      timer.expires_after(milliseconds(400));
      int calls = 0;
      timer.async_wait([&](const asio::error_code& error) {
        CHECK(!error);
        ++calls;
      });
      io.run();
      CHECK(calls == 1);
      // The timer counts at most one slice of the stop, and a slice is not longer than kTick.
      CHECK(Steady::now() - began >= stopped + milliseconds(400) - AwakeClock::kTick);
    }
  }
}

TEST_CASE("a timer whose time is zero ends in the next handler") {
  asio::io_context io;
  AwakeTimer timer(io);
  timer.expires_after(Duration::zero());
  int calls = 0;
  timer.async_wait([&](const asio::error_code& error) { calls += !error; });
  CHECK(calls == 0);
  io.run();
  CHECK(calls == 1);
}

TEST_CASE("a wait that is cancelled ends once, even if a slice of it had ended before") {
  for (const bool after_a_slice : {false, true}) {
    for (const bool starts_again : {false, true}) {
      CAPTURE(after_a_slice);
      CAPTURE(starts_again);
      asio::io_context io;
      AwakeTimer timer(io);
      int cancelled = 0, ended = 0;
      timer.expires_after(std::chrono::hours(1));
      timer.async_wait([&](const asio::error_code& error) { cancelled += error == asio::error::operation_aborted; });
      asio::post(io, [&] {
        // The timer's first slice ends during this sleep, so the handler of the slice runs after the cancellation.
        if (after_a_slice) std::this_thread::sleep_for(AwakeClock::kTick + milliseconds(10));
        asio::post(io, [&] {
          if (!starts_again) return timer.cancel();
          timer.expires_after(milliseconds(1));
          timer.async_wait([&](const asio::error_code& error) { ended += !error; });
        });
      });
      io.run();
      CHECK(cancelled == 1);
      CHECK(ended == (starts_again ? 1 : 0));
    }
  }
}

}  // namespace awake_timer_test
}  // namespace rondo::tcp
