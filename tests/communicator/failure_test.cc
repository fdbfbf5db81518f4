// The states of a communicator's failure, and its first cause.
#include "collectives/communicator/failure.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/threads.h"

namespace rondo {
namespace failure_test {

constexpr auto kNothing = [] {};

Error Cause(Rank rank) { return Error(ErrorCode::kPeerLost, fmt::format("rank {} died", rank)); }

TEST_CASE("a failure has its states one after the other") {
  using State = CommunicatorFailure::State;
  CommunicatorFailure failure;
  CHECK(failure.state() == State::kSound);
  CHECK_FALSE(failure.has_failed());
  CHECK_FALSE(failure.cause());

  const TimePoint now = ManualClock().Now();
  CHECK(failure.Begin(Cause(1), 2, now, kNothing));
  CHECK(failure.state() == State::kFailed);
  CHECK(failure.has_failed());
  CHECK(failure.reporter() == 2);
  CHECK(failure.began_at() == now);
  failure.OnPeersNotified();
  CHECK(failure.state() == State::kNotified);
  failure.BeginEnd();
  CHECK(failure.state() == State::kEnding);
  CHECK_FALSE(failure.has_ended());
  failure.RefineCause([](const Error& error) { return error.With([](ErrorDetails& d) { d.rank = 7; }); });
  failure.End();
  CHECK(failure.has_ended());
  CHECK(failure.has_failed());
  CHECK(failure.cause()->details().rank == 7);
  CHECK(failure.cause()->message() == "rank 1 died");
}

TEST_CASE("the first cause stays, and what must happen before it is seen happens once, before the state changes") {
  CommunicatorFailure failure;
  int calls = 0;
  CHECK(failure.Begin(Cause(1), 0, {}, [&] {
    ++calls;
    CHECK_FALSE(failure.has_failed());
  }));
  CHECK_FALSE(failure.Begin(Cause(2), 3, {}, [&] { ++calls; }));
  CHECK(calls == 1);
  CHECK(failure.cause()->message() == "rank 1 died");
  CHECK(failure.reporter() == 0);
}

TEST_CASE("of threads that fail at once one is the first, and whoever sees the state sees its cause") {
  for (int round = 0; round < 100; ++round) {
    CommunicatorFailure failure;
    std::atomic<int> first{0};
    Threads threads(3, [&](Rank rank) {
      if (failure.Begin(Cause(rank), rank, {}, kNothing)) first.fetch_add(1);
    });
    while (!failure.has_failed()) std::this_thread::yield();
    const auto cause = failure.cause();
    threads.Join();
    CHECK(first.load() == 1);
    CHECK((cause && cause->message() == Cause(failure.reporter()).message()));
  }
}

TEST_CASE("a failure came by notice if one arrived before this rank had a cause") {
  CommunicatorFailure noticed, found;
  noticed.OnNotice();
  CHECK(noticed.Begin(Cause(1), 1, {}, kNothing));
  CHECK(noticed.came_by_notice());
  CHECK(found.Begin(Cause(1), 0, {}, kNothing));
  found.OnNotice();
  CHECK_FALSE(found.came_by_notice());
}

}  // namespace failure_test
}  // namespace rondo
