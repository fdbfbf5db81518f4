// The ring of issued collectives: what it accepts, what it keeps until an operation has ended, and which thread may
// issue.
#include "collectives/communicator/operation_queue.h"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <vector>

namespace rondo {
namespace operation_queue_test {

OperationRequest AllReduceOf(std::uint64_t count) {
  OperationRequest request;
  request.descriptor = {.count = count, .collective = Collective::kAllReduce, .type = DataType::kFloat32};
  return request;
}

// Reserves and publishes an operation. Returns it, or nullptr if the queue is full.
OperationQueue::Operation* Issue(OperationQueue& queue, const OperationRequest& request) {
  const auto operation = queue.Reserve(request);
  if (!operation) {
    CHECK(operation.error().code() == ErrorCode::kResource);
    return nullptr;
  }
  const Sequence sequence = (*operation)->request.descriptor.sequence;
  queue.Publish(request.compares ? sequence + 1 : sequence);
  return *operation;
}

TEST_CASE("operations get consecutive numbers, and the owner gets them in that order") {
  OperationQueue queue(0, 2, 4);
  CHECK_FALSE(queue.HasCurrent());
  CHECK(queue.LastCompleted().sequence == 0);
  for (std::uint64_t count : {10, 20, 30}) REQUIRE(Issue(queue, AllReduceOf(count)) != nullptr);
  CHECK(queue.issued() == 3);
  for (Sequence sequence = 1; sequence <= 3; ++sequence) {
    REQUIRE(queue.HasCurrent());
    CHECK(queue.HasPending());
    CHECK(queue.current() == sequence);
    CHECK(queue.Current().request.descriptor.sequence == sequence);
    CHECK(queue.Current().request.descriptor.count == 10 * sequence);
    sequence == 2 ? queue.CompleteUnawaited() : queue.Complete();
    CHECK(queue.completed() == sequence);
    CHECK(queue.LastCompleted().count == 10 * sequence);
  }
  CHECK_FALSE(queue.HasCurrent());
  CHECK_FALSE(queue.HasPending());
}

TEST_CASE("no thread sees an operation before it is published, and the next one may take its place") {
  OperationQueue queue(0, 2, 4);
  REQUIRE(queue.Reserve(AllReduceOf(1)));
  CHECK_FALSE(queue.HasCurrent());
  REQUIRE(Issue(queue, AllReduceOf(2)) != nullptr);
  CHECK(queue.Current().request.descriptor.sequence == 1);
  CHECK(queue.Current().request.descriptor.count == 2);
}

TEST_CASE("as many operations are pending as the limit says, and no more, however large the ring is") {
  OperationQueue queue(0, 2, 3);
  CHECK(queue.capacity() == 4);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) REQUIRE(Issue(queue, AllReduceOf(1)) != nullptr);
    CHECK(Issue(queue, AllReduceOf(1)) == nullptr);
    queue.Complete();
    CHECK(Issue(queue, AllReduceOf(1)) != nullptr);
    for (int i = 0; i < 3; ++i) queue.Complete();
  }
}

TEST_CASE("an operation whose results are compared takes two places") {
  OperationQueue queue(0, 2, 2);
  OperationRequest request = AllReduceOf(1);
  REQUIRE(Issue(queue, request) != nullptr);
  request.compares = true;
  CHECK(Issue(queue, request) == nullptr);
  queue.Complete();
  CHECK(Issue(queue, request) != nullptr);
  CHECK(queue.issued() == 3);
}

TEST_CASE("a comparison is as wide as the world, and another operation gets it only when the gather has ended") {
  OperationQueue queue(1, 3, 8);
  OperationRequest request = AllReduceOf(1);
  request.compares = true;
  const auto compare = [&] {
    const auto operation = queue.Reserve(request);
    REQUIRE(operation);
    ResultComparison& comparison = queue.Compare(**operation);
    CHECK((*operation)->request.comparison == &comparison);
    CHECK(comparison.sequence == (*operation)->request.descriptor.sequence + 1);
    CHECK(comparison.all.size() == 3);
    CHECK(comparison.own == 0);
    comparison.own = 7;
    queue.Publish(comparison.sequence);
    return &comparison;
  };
  const ResultComparison* const first = compare();
  queue.Complete();  // completes the operation, but not its comparison
  const ResultComparison* const second = compare();
  CHECK(second != first);
  queue.Complete();
  CHECK(compare() == first);
}

TEST_CASE("counts are kept until their operation has ended, and are the queue's own") {
  OperationQueue queue(1, 3, 8);
  std::vector<std::uint64_t> counts = {5, 0, 7};
  OperationRequest request;
  request.descriptor = {.count = 12, .collective = Collective::kAllGather, .varying = true};
  request.output_counts = counts;
  const OperationQueue::Operation* const gather = Issue(queue, request);
  REQUIRE(gather != nullptr);
  CHECK(gather->request.output_counts.empty());

  OperationRequest exchange;
  exchange.descriptor = {.collective = Collective::kAllToAll, .varying = true};
  const std::array<std::uint64_t, 3> sent = {1, 2, 3}, received = {4, 2, 0};
  exchange.input_counts = sent;
  exchange.output_counts = received;
  const OperationQueue::Operation* const all_to_all = Issue(queue, exchange);
  REQUIRE(all_to_all != nullptr);

  counts = {9, 9, 9};
  const auto is = [](std::span<const std::uint64_t> sums, std::vector<std::uint64_t> expected) {
    return std::vector<std::uint64_t>(sums.begin(), sums.end()) == expected;
  };
  CHECK(is(gather->request.counts->begins, {0, 5, 5, 12}));
  CHECK(is(all_to_all->request.counts->sent, {0, 1, 3, 6}));
  CHECK(is(all_to_all->request.counts->received, {0, 4, 6, 6}));
  CHECK(all_to_all->request.counts->begins.empty());

  const BlockCounts* const kept = gather->request.counts;
  queue.Complete();
  const OperationQueue::Operation* const next = Issue(queue, request);
  REQUIRE(next != nullptr);
  CHECK(next->request.counts == kept);
  CHECK(is(next->request.counts->begins, {0, 9, 18, 27}));
}

TEST_CASE("where the root alone knows all counts, the other ranks have their own block and empty ones") {
  OperationQueue queue(1, 3, 8);
  OperationRequest request;
  request.descriptor = {.collective = Collective::kGather, .root = 0, .varying = true};
  request.input_elements = 4;
  const OperationQueue::Operation* const gather = Issue(queue, request);
  REQUIRE(gather != nullptr);
  const auto begins = gather->request.counts->begins;
  CHECK(std::vector<std::uint64_t>(begins.begin(), begins.end()) == std::vector<std::uint64_t>{0, 0, 4, 4});
}

TEST_CASE("one thread at a time is the issuer") {
  OperationQueue queue(0, 2, 4);
  std::optional<OperationQueue::Issuer> first(queue);
  CHECK(static_cast<bool>(*first));
  {
    const OperationQueue::Issuer second(queue);
    CHECK_FALSE(static_cast<bool>(second));
  }
  // The destructor of `second` has not ended the role of `first` as the issuer.
  CHECK_FALSE(static_cast<bool>(OperationQueue::Issuer(queue)));
  first.reset();
  CHECK(static_cast<bool>(OperationQueue::Issuer(queue)));
}

TEST_CASE("time that the process did not run is given back to the operations that are pending") {
  OperationQueue queue(0, 2, 4);
  const auto at = [](int seconds) { return TimePoint(std::chrono::seconds(seconds)); };
  const auto issue = [&](TimePoint issued, TimePoint deadline) {
    const auto operation = queue.Reserve(AllReduceOf(1));
    REQUIRE(operation);
    (*operation)->issued = issued;
    (*operation)->deadline = deadline;
    queue.Publish(queue.issued() + 1);
  };
  issue(at(10), at(40));
  issue(at(10), at(41));
  issue(at(10), TimePoint::max());
  issue(at(23), at(53));  // issued during the pause, so pending only for the rest of the pause
  queue.Complete();
  queue.ExtendDeadlines(at(20), at(30));
  CHECK(queue.At(1).deadline == at(40));  // it has ended
  CHECK(queue.At(2).deadline == at(51));
  CHECK(queue.At(3).deadline == TimePoint::max());
  CHECK(queue.At(4).deadline == at(60));
  queue.ExtendDeadlines(at(5), at(8));
  CHECK(queue.At(4).deadline == at(60));  // issued after the pause
}

}  // namespace operation_queue_test
}  // namespace rondo
