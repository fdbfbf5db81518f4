// The states of a communicator's failure, its first cause, and the notices to peers.
#include "collectives/communicator/failure.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/communicator/failing_rank.h"
#include "tests/support/threads.h"

namespace rondo {
namespace failure_test {

using State = Failure::State;

Error Cause(Rank rank) {
  return Error(ErrorCode::kPeerLost, fmt::format("rank {} died", rank)).With([&](ErrorDetails& d) {
    d.culprit = rank;
  });
}

// Returns the peers that got a notice, in the order of the notices. Checks that each notice has this cause and
// reporter.
std::vector<Rank> Notified(const FailingRank& rank, const std::string& cause, Rank reporter) {
  std::vector<Rank> peers;
  for (const auto& [peer, message] : rank.control->sent) {
    CHECK(message.kind == ControlKind::kAbort);
    const auto notice = DecodeAbortNotice(message.body);
    REQUIRE(notice);
    CHECK(notice->message == cause);
    CHECK(notice->origin == reporter);
    peers.push_back(peer);
  }
  return peers;
}

TEST_CASE("a failure has its states one after the other, and is refined while it ends") {
  FailingRank rank({0});
  Failure& failure = rank.failure;
  std::vector<State> seen;
  rank.on_failing = rank.control->on_send = rank.on_failed = [&] { seen.push_back(failure.state()); };
  CHECK(failure.state() == State::kSound);
  CHECK_FALSE(failure.has_failed());
  CHECK_FALSE(failure.cause());

  failure.Begin(Cause(1), 3);
  // The states when OnFailing was called, when the notice was sent, and when OnFailed was called.
  CHECK(seen == std::vector{State::kSound, State::kFailed, State::kNotified});
  CHECK(failure.has_failed());
  CHECK(failure.reporter() == 3);
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

TEST_CASE("the first cause stays, with the culprit's host, and is announced once") {
  FailingRank rank({0, 1});
  int calls = 0;
  rank.on_failing = rank.on_failed = [&] { ++calls; };
  rank.failure.Begin(Cause(1));
  rank.failure.Begin(Cause(3), 0);
  CHECK(calls == 2);
  CHECK(rank.failure.cause()->message() == "rank 1 died");
  CHECK(rank.failure.cause()->details().host == "host1");
  CHECK(rank.failure.reporter() == FailingRank::kSelf);
  CHECK(Notified(rank, "rank 1 died", FailingRank::kSelf) == std::vector<Rank>{0, 1});
}

TEST_CASE("of threads that fail at once one is the first, and each thread that sees the state sees its cause") {
  for (int round = 0; round < 100; ++round) {
    FailingRank rank;
    std::atomic<int> first{0};
    rank.on_failing = [&] { first.fetch_add(1); };
    Threads threads(3, [&](Rank thread) { rank.failure.Begin(Cause(thread), thread); });
    while (!rank.failure.has_failed()) std::this_thread::yield();
    const auto cause = rank.failure.cause();
    threads.Join();
    CHECK(first.load() == 1);
    CHECK((cause && cause->message() == Cause(rank.failure.reporter()).message()));
    CHECK(rank.failure.state() == State::kNotified);
  }
}

TEST_CASE("every peer gets one notice: when it is connected, when it connects later, or when it asks") {
  FailingRank rank({0});
  rank.failure.NotifyPeers();
  CHECK_FALSE(rank.failure.Answer(0));
  CHECK(rank.control->sent.empty());

  rank.failure.Begin(Cause(1), 3);
  rank.failure.NotifyPeers();
  CHECK(Notified(rank, "rank 1 died", 3) == std::vector<Rank>{0});
  rank.control->connected = {0, 1};
  rank.failure.BeginEnd();
  CHECK(Notified(rank, "rank 1 died", 3) == std::vector<Rank>{0, 1});
  rank.control->connected = {0, 1, 3};
  CHECK(rank.failure.Answer(3));
  rank.failure.NotifyPeers();
  CHECK(Notified(rank, "rank 1 died", 3) == std::vector<Rank>{0, 1, 3});
  rank.failure.LeaveNotice();
  REQUIRE(rank.control->left_behind.size() == 1);
  CHECK(DecodeAbortNotice(rank.control->left_behind[0].body)->message == "rank 1 died");
}

TEST_CASE("a communicator fails without an endpoint, too") {
  FailingRank rank({0});
  rank.endpoint.Take().reset();
  rank.failure.Begin(Cause(1));
  CHECK(rank.failure.state() == State::kNotified);
  CHECK(rank.failure.Answer(0));
}

TEST_CASE("where memory runs out in a step or a call everything fails, and this rank is the culprit") {
  FailingRank step, call, sound;
  CHECK(step.failure.Guard("testing", []() -> bool { throw std::bad_alloc(); }));
  CHECK(step.failure.cause()->code() == ErrorCode::kOutOfMemory);
  CHECK(step.failure.cause()->culprit() == FailingRank::kSelf);
  const Status failed = call.failure.GuardCall("testing", []() -> Status { throw std::bad_alloc(); });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().details().host == "host2");
  CHECK(call.failure.cause()->message() == failed.error().message());

  CHECK_FALSE(sound.failure.Guard("testing", [] { return false; }));
  CHECK_FALSE(sound.failure.GuardCall("testing", [] { return Status(Fail(ErrorCode::kTimeout, "late")); }));
  CHECK(sound.failure.state() == State::kSound);
}

TEST_CASE("peers that connect late are waited for, unless the cause came by a notice or none may come") {
  // Returns the peers that are notified while notices are flushed. At the beginning only rank 0 is connected.
  const auto notified = [&](Failure::Source source, bool peers_may_connect) {
    FailingRank rank;
    ProgressLock lock;
    rank.failure.Begin(Cause(1), std::nullopt, source);
    rank.control->connected = {0};
    rank.control->on_send = [&] { rank.control->connected = {0, 1, 3}; };
    rank.failure.FlushNotices(peers_may_connect, {}, lock);
    return Notified(rank, "rank 1 died", FailingRank::kSelf);
  };
  CHECK(notified(Failure::Source::kThisRank, true) == std::vector<Rank>{0, 1, 3});
  CHECK(notified(Failure::Source::kThisRank, false).empty());
  CHECK(notified(Failure::Source::kNotice, true).empty());
}

TEST_CASE("late peers are waited for until the first connections should have been made") {
  FailingRank rank;
  ProgressLock lock;
  rank.failure.Begin(Cause(1));
  rank.control->connected = {0};
  rank.control->on_send = [&] { rank.clock.Advance(GracePeriods{}.first_connections); };
  rank.failure.FlushNotices(/*peers_may_connect=*/true, {}, lock);
  CHECK(rank.control->sent.size() == 1);
}

}  // namespace failure_test
}  // namespace rondo
