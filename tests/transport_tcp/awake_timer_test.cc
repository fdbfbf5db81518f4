// Tests the timer that does not count the time for which its process was stopped.
#include "transport/tcp/awake_timer.h"

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <chrono>

namespace rondo::tcp {
namespace awake_timer_test {

// Handles a timer of 10 ms when `late` has passed since it expired. Returns whether the timer started again.
bool BeginsAgain(Duration late) {
  asio::io_context io;
  AwakeTimer timer(io);
  timer.expires_after(std::chrono::milliseconds(10));
  timer.expires_at(AwakeTimer::clock_type::now() - late);
  const auto expiry = timer.expiry();
  int served = 0;
  timer.async_wait([&](const asio::error_code& error) {
    CHECK(!error);
    ++served;
  });
  io.run();
  CHECK(served == 1);
  return timer.expiry() != expiry;
}

TEST_CASE("a timer that is served seconds too late begins again, and one that is a little late does not") {
  CHECK(BeginsAgain(std::chrono::seconds(5)));
  CHECK(!BeginsAgain(std::chrono::milliseconds(1)));
}

TEST_CASE("a timer that is cancelled says so once") {
  asio::io_context io;
  AwakeTimer timer(io);
  timer.expires_after(std::chrono::hours(1));
  int cancelled = 0;
  timer.async_wait([&](const asio::error_code& error) { cancelled += error == asio::error::operation_aborted; });
  timer.cancel();
  io.run();
  CHECK(cancelled == 1);
}

}  // namespace awake_timer_test
}  // namespace rondo::tcp
