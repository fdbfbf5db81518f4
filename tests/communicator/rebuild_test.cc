// What a communicator itself does in a rebuild, with a rebuilder that only records its calls. rebuild_processes_test.cc
// tests whole rebuilds, with real processes that are killed and stopped.
#include "collectives/rebuild.h"

#include <doctest/doctest.h>

#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace rebuild_test {

using namespace std::chrono_literals;

// A rebuilder that records its calls. It never succeeds, so that it can be called again.
class RecordingRebuilder final : public Rebuilder {
 public:
  struct Asked {
    std::optional<Error> failure;
    std::vector<Rank> lost;
    RebuildOptions options;
  };

  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) override {
    asked_.push_back({request.failure, request.lost(), request.options});
    return Fail(ErrorCode::kRebuildFailed, "as the test wants it");
  }
  const std::vector<Asked>& asked() const { return asked_; }

 private:
  std::vector<Asked> asked_;  // only the thread of its rank uses it
};

template <typename T>
std::string TextOfResult(const Result<T>& result) {
  return result ? "ok" : result.error().ToString();
}

// One rebuilder for each rank.
struct World {
  explicit World(int ranks) : network(ranks) {
    for (int i = 0; i < ranks; ++i) rebuilders.push_back(std::make_shared<RecordingRebuilder>());
  }
  void Run(const std::function<void(Communicator&)>& body) {
    OnRanks(network, body, [&](CommunicatorOptions& options) {
      options.rebuilder = rebuilders[static_cast<std::size_t>(options.rank)];
    });
  }
  InprocNetwork network;
  std::vector<std::shared_ptr<RecordingRebuilder>> rebuilders;
};

TEST_CASE("A communicator without a rebuilder says what it would take") {
  InprocNetwork network(1);
  OnRanks(network, [](Communicator& communicator) {
    const auto next = communicator.Rebuild();
    REQUIRE(!next);
    CHECK(next.error().code() == ErrorCode::kUnsupported);
    CHECK(next.error().message().find("ConnectOptions::rebuildable") != std::string::npos);
    CHECK(communicator.Barrier());  // the communicator still works
    CHECK(communicator.report().old_ranks.empty());
  });
}

TEST_CASE("Options that make no sense are refused, and the communicator goes on") {
  World world(1);
  world.Run([&](Communicator& communicator) {
    for (const RebuildOptions& options : {RebuildOptions{.min_ranks = 0}, RebuildOptions{.max_ranks = -1},
                                          RebuildOptions{.min_ranks = 3, .max_ranks = 2}, RebuildOptions{.settle = 0s},
                                          RebuildOptions{.timeout = Duration(0)}}) {
      const auto next = communicator.Rebuild(options);
      REQUIRE(!next);
      CHECK(next.error().code() == ErrorCode::kInvalidArgument);
    }
    CHECK(communicator.Barrier());
    CHECK(world.rebuilders[0]->asked().empty());
  });
}

TEST_CASE("The rebuilder gets the reason, and which ranks ended without a goodbye") {
  World world(3);
  world.Run([&](Communicator& communicator) {
    Status status = communicator.Barrier();
    if (communicator.rank() == 2) return world.network.Kill(2);
    for (int i = 0; i < 2 && status; ++i) status = communicator.Barrier();
    REQUIRE(!status);
    CHECK(TextOfResult(communicator.Rebuild({.min_ranks = 2})) == "rebuild_failed: as the test wants it");
    const auto& asked = world.rebuilders[static_cast<std::size_t>(communicator.rank())]->asked();
    REQUIRE(asked.size() == 1);
    REQUIRE(asked[0].failure.has_value());
    CHECK(asked[0].failure->code() == ErrorCode::kPeerLost);
    CHECK(asked[0].lost == std::vector<Rank>{2});
    CHECK(asked[0].options.min_ranks == 2);
  });
}

TEST_CASE("An aborted communicator is rebuilt without taking any rank for dead") {
  World world(2);
  world.Run([&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    if (communicator.rank() == 0) communicator.Abort("the loss is not a number");
    const Status status = communicator.Barrier();
    CHECK_FALSE(status);
    (void)communicator.Rebuild();
    const auto& asked = world.rebuilders[static_cast<std::size_t>(communicator.rank())]->asked();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].lost.empty());
    REQUIRE(asked[0].failure.has_value());
    CHECK(asked[0].failure->message().find("the loss is not a number") != std::string::npos);
  });
}

TEST_CASE("One in order is closed by all of its ranks, and then nothing has failed") {
  World world(2);
  world.Run([&](Communicator& communicator) {
    std::int32_t one = 1, sum = 0;
    Work work = communicator.AllReduceAsync(&one, &sum, 1, DataType::kInt32, ReduceOp::kSum);
    (void)communicator.Rebuild();  // Rebuild returns only after all operations that were issued earlier have ended
    CHECK(sum == 2);
    CHECK(work.Wait());
    const auto& asked = world.rebuilders[static_cast<std::size_t>(communicator.rank())]->asked();
    REQUIRE(asked.size() == 1);
    CHECK_FALSE(asked[0].failure.has_value());
    CHECK(asked[0].lost.empty());
    const Status after = communicator.Barrier();
    CHECK((!after && after.error().code() == ErrorCode::kClosed));
  });
}

TEST_CASE("A rank that does not come to the rebuild of one in order gets the error from its next call") {
  World world(2);
  std::latch rebuilt(1);
  world.Run([&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    if (communicator.rank() == 0) {
      (void)communicator.Rebuild({.settle = 50ms});
      rebuilt.count_down();
      return;
    }
    rebuilt.wait();
    const Status status = communicator.Barrier();
    CAPTURE(TextOf(status));
    CHECK_FALSE(status);
    CHECK(status.error().culprit() == 0);
  });
}

TEST_CASE("After an error the call may be repeated") {
  World world(1);
  world.Run([&](Communicator& communicator) {
    CHECK_FALSE(communicator.Rebuild());
    CHECK_FALSE(communicator.Rebuild());
    CHECK(world.rebuilders[0]->asked().size() == 2);
  });
}

TEST_CASE("A group is not rebuilt, and ends with the communicator that it was split from") {
  World world(2);
  world.Run([&](Communicator& communicator) {
    auto group = communicator.Split(0, communicator.rank());
    REQUIRE(group);
    CHECK((*group)->Barrier());
    const auto next = (*group)->Rebuild();
    REQUIRE(!next);
    CHECK(next.error().code() == ErrorCode::kUnsupported);
    CHECK(next.error().message().find("a group") != std::string::npos);

    (void)communicator.Rebuild();
    const Status status = (*group)->Barrier();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("rebuilds the communicator that this one was split from") != std::string::npos);
  });
}

TEST_CASE("A report says who came from where and who is gone, in words") {
  const RebuildReport report{.generation = 4,
                             .old_generation = 3,
                             .old_ranks = {0, 2, kNoRank},
                             .gone = {{.old_rank = 1, .host = "a", .pid = 17, .why = "was found dead by rank 0"}}};
  CHECK(report.ToString() ==
        "generation 4 of 3 ranks; 0 was 0, 1 was 2, 2 is new; gone: rank 1 (host a, pid 17): was found dead by rank 0");
  CHECK(report.NewRankOf(2) == 1);
  CHECK(report.NewRankOf(1) == kNoRank);
  CHECK(report.NewRankOf(kNoRank) == kNoRank);
  CHECK(report.joiners() == 1);
  CHECK(RebuildReport{.generation = 5}.ToString() == "generation 5, not rebuilt");
}

}  // namespace rebuild_test
}  // namespace rondo
