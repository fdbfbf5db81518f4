// The queue that passes sends and receives from their issuers to the owner. It keeps their order, limits their number,
// and accepts all operations of a call or none, until Refuse is called.
#include "collectives/point_to_point/submission_queue.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>
#include <vector>

namespace rondo {
namespace submission_queue_test {

constexpr TimePoint kNow{std::chrono::seconds(5)};
const auto kRecord = [](MessageOperation&) {};

TEST_CASE("the owner gets operations in the order of submission, with deadlines from that moment") {
  SubmissionQueue queue(8);
  CHECK_FALSE(queue.in_use());
  CHECK(queue.Take() == nullptr);
  MessageOperation first, second, third;
  first.timeout = std::chrono::seconds(1);
  second.timeout = Duration::max();
  std::vector<MessageOperation*> recorded;
  const auto record = [&](MessageOperation& operation) { recorded.push_back(&operation); };
  REQUIRE(queue.Submit({&first}, kNow, record));
  REQUIRE(queue.Submit({&second, &third}, kNow, record));
  CHECK(recorded == std::vector<MessageOperation*>{&first, &second, &third});
  CHECK(queue.in_use());
  CHECK(queue.is_waiting());
  CHECK(queue.pending() == 3);
  CHECK(queue.Take() == &first);
  CHECK(queue.Take() == &second);
  CHECK(queue.is_waiting());
  CHECK(queue.Take() == &third);
  CHECK_FALSE(queue.is_waiting());
  CHECK(queue.Take() == nullptr);
  CHECK(queue.pending() == 3);  // operations stay pending until they are final
  queue.OnFinished(2);
  CHECK(queue.pending() == 1);
  CHECK(first.deadline == kNow + std::chrono::seconds(1));
  CHECK(second.deadline == TimePoint::max());
}

TEST_CASE("of operations that go together either all are taken or none") {
  SubmissionQueue queue(2);
  MessageOperation one, two, three;
  REQUIRE(queue.Submit({&one}, kNow, kRecord));
  int recorded = 0;
  const Status refused = queue.Submit({&two, &three}, kNow, [&](MessageOperation&) { ++recorded; });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == ErrorCode::kResource);
  CHECK(recorded == 0);
  CHECK(queue.pending() == 1);
  CHECK(queue.Take() == &one);
  CHECK(queue.Take() == nullptr);
  queue.OnFinished(1);
  CHECK(queue.Submit({&two, &three}, kNow, kRecord));
}

TEST_CASE("the first reason to refuse stays, and what was taken before still ends") {
  SubmissionQueue queue(2);
  MessageOperation before, after;
  REQUIRE(queue.Submit({&before}, kNow, kRecord));
  CHECK_FALSE(queue.is_closed());
  queue.Close(Error(ErrorCode::kClosed, "closed"));
  queue.Refuse(Error(ErrorCode::kAborted, "aborted"));
  const Status refused = queue.Submit({&after}, kNow, kRecord);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == ErrorCode::kClosed);
  CHECK(queue.is_closed());
  CHECK(queue.Take() == &before);
}

TEST_CASE("a peer that has called is accepted once, however often it called") {
  SubmissionQueue queue(2);
  CHECK_FALSE(queue.has_peer_calls());
  for (const Rank peer : {3, 1, 3}) queue.OnPeerCall(peer);
  CHECK(queue.in_use());
  CHECK(queue.has_peer_calls());
  CHECK(queue.TakePeerCalls() == std::vector<Rank>{3, 1});
  CHECK_FALSE(queue.has_peer_calls());
  CHECK(queue.TakePeerCalls().empty());
  queue.OnPeerCall(3);
  CHECK(queue.TakePeerCalls() == std::vector<Rank>{3});
}

TEST_CASE("several threads submit while the owner takes, and nothing is lost") {
  constexpr std::size_t kThreads = 4, kEach = 200;
  SubmissionQueue queue(kThreads * kEach);
  std::array<std::array<MessageOperation, kEach>, kThreads> operations;
  std::vector<std::thread> threads;
  for (auto& own : operations)
    threads.emplace_back([&] {
      for (MessageOperation& operation : own) CHECK(queue.Submit({&operation}, kNow, kRecord));
    });
  std::array<std::size_t, kThreads> next{};
  for (std::size_t taken = 0; taken < kThreads * kEach;) {
    const MessageOperation* const operation = queue.Take();
    if (operation == nullptr) continue;
    ++taken;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      if (operation < operations[thread].data() || operation >= operations[thread].data() + kEach) continue;
      CHECK(operation == &operations[thread][next[thread]]);  // each thread's operations are in order
      ++next[thread];
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(queue.is_waiting());
}

}  // namespace submission_queue_test
}  // namespace rondo
