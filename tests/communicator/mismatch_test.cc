// Ranks that make different calls: all get an error whose text names both calls.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/fault_row.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace mismatch_test {

// doctest's asserts are thread-safe, but the rest of doctest is not. So every check here is on plain values, such as
// texts and numbers.

// When a rank reports the mismatch. A rank that only sends may return from its call before it can detect the mismatch.
enum class Noticed { kInTheCall, kAtClose, kInEither };

struct Disagreement {
  const char* what;
  int ranks;
  Noticed noticed;
  Status (*call)(Communicator& communicator, float* values);
  const char* one;  // the texts for the two calls, which every rank's error must contain
  const char* other;
};

Status SumOf(Communicator& communicator, float* values, std::uint64_t count) {
  return communicator.AllReduce(values, values, count, DataType::kFloat32, ReduceOp::kSum);
}

Status BroadcastFrom(Communicator& communicator, float* values, Rank root) {
  return communicator.Broadcast(values, values, 16, DataType::kFloat32, root);
}

// Rank 1 broadcasts from itself, while the other ranks compute a sum.
Status DifferentOperations(Communicator& communicator, float* values) {
  return communicator.rank() == 1 ? BroadcastFrom(communicator, values, 1) : SumOf(communicator, values, 16);
}

const Disagreement kDisagreements[] = {
    {"the operation, of two", 2, Noticed::kInEither, DifferentOperations, "all_reduce float32 x 16 sum",
     "broadcast float32 x 16 from rank 1"},
    {"the operation, of four", 4, Noticed::kInEither, DifferentOperations, "all_reduce float32 x 16 sum",
     "broadcast float32 x 16 from rank 1"},
    {"the count", 3, Noticed::kInEither,
     [](Communicator& communicator, float* values) {
       return SumOf(communicator, values, communicator.rank() == 2 ? 17 : 16);
     },
     "x 16 ", "x 17 "},
    {"the root, each waiting for the other although no bytes flow", 2, Noticed::kInTheCall,
     [](Communicator& communicator, float* values) {
       return BroadcastFrom(communicator, values, 1 - communicator.rank());
     },
     "broadcast float32 x 16 from rank 0", "broadcast float32 x 16 from rank 1"},
    {"the root, each sending from itself and returning", 2, Noticed::kAtClose,
     [](Communicator& communicator, float* values) { return BroadcastFrom(communicator, values, communicator.rank()); },
     "broadcast float32 x 16 from rank 0", "broadcast float32 x 16 from rank 1"},
};

TEST_CASE("ranks that disagree all end with an error that names both sides, at the latest when they close") {
  for (const Disagreement& about : kDisagreements) {
    CAPTURE(about.what);
    InprocNetwork network(about.ranks);
    std::mutex mutex;
    std::vector<std::pair<bool, std::string>> outcomes;  // whether the call itself succeeded, and the error
    OnRanks(network, [&](Communicator& communicator) {
      std::vector<float> values(32);
      const Status called = about.call(communicator, values.data());
      const Status status = called ? communicator.Close() : called;
      const std::string text = TextOf(status);
      const std::lock_guard lock(mutex);
      StateFault(18, 1, {status}, {.path = "inproc"});
      outcomes.emplace_back(called.has_value(), text);
    });
    REQUIRE(outcomes.size() == static_cast<std::size_t>(about.ranks));
    for (const auto& outcome : outcomes) {
      const bool returned = outcome.first;
      const std::string& text = outcome.second;
      CAPTURE(text);
      CHECK(text.find("mismatch") == 0);
      CHECK(text.find(about.one) != std::string::npos);
      CHECK(text.find(about.other) != std::string::npos);
      if (about.noticed != Noticed::kInEither) CHECK(returned == (about.noticed == Noticed::kAtClose));
    }
  }
}

TEST_CASE("a rank that an operation connects while the failure arrives gets the first cause") {
  // The broadcast connects ranks 0-1, 0-2 and 2-3. Rank 0's notice reaches rank 1 in the same poll that connects rank 1
  // to rank 3. After that, none of ranks 0 to 2 polls any more.
  InprocNetwork network(4);
  std::barrier<> all_have_it(4), given_up(2), failed(4);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(4);
    const auto add = [&] { return SumOf(communicator, values.data(), 4); };
    CHECK(communicator.Broadcast(values.data(), values.data(), 4, DataType::kFloat32, 0,
                                 {.algorithm = Algorithm::kTree}));
    all_have_it.arrive_and_wait();
    if (communicator.rank() == 0) communicator.Abort("the loss is not a number");
    if (communicator.rank() < 2) given_up.arrive_and_wait();
    if (communicator.rank() == 1) CHECK(TextOf(add()).find("the loss is not a number") != std::string::npos);
    failed.arrive_and_wait();
    if (communicator.rank() == 3) {
      const std::string error_text = TextOf(add());
      CAPTURE(error_text);
      CHECK(error_text.find("peer_aborted: rank 0 aborted: the loss is not a number") == 0);
    }
  });
}

TEST_CASE("a rank that comes to a failed communicator late gets the first cause") {
  // Ranks 0 and 1 disagree, and have failed before rank 2 issues anything. Rank 2 was connected to neither of them.
  InprocNetwork network(3);
  std::barrier<> failed(3);
  std::atomic<bool> notified{false};
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(4);
    if (communicator.rank() < 2) {
      const Status status = communicator.AllReduce(values.data(), values.data(), communicator.rank() == 0 ? 3 : 4,
                                                   DataType::kFloat32, ReduceOp::kSum, {.algorithm = Algorithm::kTree});
      CHECK(TextOf(status).find("mismatch") == 0);
      failed.arrive_and_wait();
      while (!notified.load()) communicator.Progress();  // rank 0 or 1 polls, so that it can answer rank 2
      return;
    }
    failed.arrive_and_wait();
    const Status status = communicator.AllReduce(values.data(), values.data(), 4, DataType::kFloat32, ReduceOp::kSum,
                                                 {.algorithm = Algorithm::kTree});
    CAPTURE(TextOf(status));
    notified.store(true);
    CHECK(TextOf(status).find("mismatch") == 0);
    CHECK(TextOf(status).find("x 3 ") != std::string::npos);
  });
}

}  // namespace mismatch_test
}  // namespace rondo
