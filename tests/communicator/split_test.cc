// Groups: which ranks are in them, and that either all of these ranks have the group or none has.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace split_test {

using namespace std::chrono_literals;

// A transport that can open at most `endpoints` endpoints, as if the process had few descriptors left.
class ScarceTransport final : public Transport {
 public:
  ScarceTransport(std::shared_ptr<Transport> real, int endpoints) : real_(std::move(real)), endpoints_(endpoints) {}

  std::string_view name() const override { return real_->name(); }
  const Capabilities& capabilities() const override { return real_->capabilities(); }
  std::string Address() const override { return real_->Address(); }
  std::string DescribeAddress() const override { return real_->DescribeAddress(); }
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    if (endpoints_ == 0) return Fail(ErrorCode::kResource, "no file descriptor is left (RLIMIT_NOFILE)");
    --endpoints_;
    return real_->OpenEndpoint(config);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return real_->Allocate(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return real_->Register(memory); }

 private:
  const std::shared_ptr<Transport> real_;
  int endpoints_;
};

TEST_CASE("split makes groups by color, ordered by key, that work side by side with their parent") {
  InprocNetwork network(5);
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto group = communicator.Split(rank == 4 ? -1 : rank % 2, -rank);
    REQUIRE(group);
    if (rank == 4) {
      CHECK(*group == nullptr);
    } else {
      CHECK((*group)->world_size() == 2);
      CHECK((*group)->rank() == (rank < 2 ? 1 : 0));  // the keys reverse the order of the ranks
      std::int32_t value = rank;
      CHECK((*group)->AllReduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum));
      CHECK(value == (rank % 2 == 0 ? 2 : 4));
    }
    CHECK(communicator.Barrier());
    auto all = communicator.Split(7, rank);
    REQUIRE(all);
    std::int32_t one = 1;
    CHECK((*all)->AllReduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum));
    CHECK(one == 5);
    if (*group != nullptr) CHECK((*group)->Close());
    CHECK((*all)->Close());
    CHECK(communicator.Close());
  });
}

// A transport that records the first rail of each endpoint.
class RailsSeen final : public Transport {
 public:
  RailsSeen(std::shared_ptr<Transport> real, std::vector<std::uint32_t>& seen) : real_(std::move(real)), seen_(seen) {}

  std::string_view name() const override { return real_->name(); }
  const Capabilities& capabilities() const override { return real_->capabilities(); }
  std::string Address() const override { return real_->Address(); }
  std::string DescribeAddress() const override { return real_->DescribeAddress(); }
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    seen_.push_back(config.rail);
    return real_->OpenEndpoint(config);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return real_->Allocate(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return real_->Register(memory); }

 private:
  const std::shared_ptr<Transport> real_;
  std::vector<std::uint32_t>& seen_;
};

TEST_CASE("a group may have other rails than the communicator that it is split from, and begin with another") {
  InprocNetwork network(3);
  std::vector<std::vector<std::uint32_t>> seen(3);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        auto group = communicator.Split(0, communicator.rank(), {.rails = 2, .first_rail = 3});
        REQUIRE(group);
        std::vector<std::int32_t> values(100'000, communicator.rank());
        CHECK((*group)->AllReduce(values.data(), values.data(), values.size(), DataType::kInt32, ReduceOp::kSum));
        CHECK(std::count(values.begin(), values.end(), 3) == 100'000);
        auto same = (*group)->Split(0, 0);
        REQUIRE(same);
        CHECK((*same)->Close());
        CHECK((*group)->Close());
        CHECK(communicator.Close());
        CHECK(seen[static_cast<std::size_t>(communicator.rank())] == std::vector<std::uint32_t>{1, 3, 3});
      },
      [&](CommunicatorOptions& options) {
        options.first_rail = 1;
        options.least_rail_bytes = 1024;
        options.transport =
            std::make_shared<RailsSeen>(options.transport, seen[static_cast<std::size_t>(options.rank)]);
      });
}

TEST_CASE("rails that make no sense are refused and fail nothing else; ranks that want different ones get an error") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    for (const GroupOptions& options :
         {GroupOptions{.rails = 0}, GroupOptions{.rails = 17}, GroupOptions{.first_rail = 16}}) {
      const auto refused = communicator.Split(0, 0, options);
      REQUIRE(!refused);
      CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
    }
    CHECK(communicator.Barrier());
    const auto differ = communicator.Split(0, 0, {.rails = static_cast<std::uint32_t>(communicator.rank() + 1)});
    REQUIRE(!differ);
    CHECK(differ.error().code() == ErrorCode::kMismatch);
    CHECK(differ.error().ToString().find("rails from rail 0 on") != std::string::npos);
  });
}

TEST_CASE("where one rank cannot make its group no rank gets one, and all name it at once") {
  for (const Rank poor : {0, 2}) {
    InprocNetwork network(4);
    OnRanks(
        network,
        [&](Communicator& communicator) {
          const auto began = std::chrono::steady_clock::now();
          const Rank rank = communicator.rank();
          const auto group = communicator.Split(rank == 3 ? -1 : rank % 2, rank);
          REQUIRE(!group);
          CAPTURE(group.error().ToString());
          CHECK(group.error().code() == ErrorCode::kResource);
          CHECK(group.error().message().find("no file descriptor is left") != std::string::npos);
          CHECK(group.error().culprit() == poor);
          CHECK(communicator.failure());
          CHECK(std::chrono::steady_clock::now() - began < 5s);  // well before the deadline of 20 s
        },
        [&](CommunicatorOptions& options) {
          if (options.rank == poor) options.transport = std::make_shared<ScarceTransport>(options.transport, 1);
        });
  }
}

TEST_CASE("a group that not all can have come by fails with what it was split from, for the same reason") {
  // Tests the state after a death in Split's last step: rank 0 has the group and waits in it, and rank 1 never uses its
  // group.
  InprocNetwork network(3);
  std::latch left(3);  // without this latch, rank 2 could die before the barrier has ended on all ranks
  std::array<Result<std::unique_ptr<Communicator>>, 3> groups;  // rank 1 does not use its group
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto& group = groups[static_cast<std::size_t>(rank)];
    group = communicator.Split(rank == 2 ? -1 : 0, -rank);
    REQUIRE(group);
    CHECK(communicator.Barrier());
    left.arrive_and_wait();
    if (rank == 2) return network.Kill(2);
    CHECK_FALSE(communicator.Barrier());
    if (rank == 1) return;
    const auto began = std::chrono::steady_clock::now();
    const Status status = (*group)->Barrier();
    CAPTURE(TextOf(status));
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kPeerLost);
    CHECK(status.error().message().find("the communicator that this group was split from failed") != std::string::npos);
    CHECK(status.error().details().first_cause.find("caused by rank 2") != std::string::npos);
    CHECK(status.error().culprit() == kNoRank);  // the rank that died is not in this group
    CHECK(std::chrono::steady_clock::now() - began < 5s);
  });
}

TEST_CASE("a rank that finds others gone in its new group gets their reason, though it does not look at the parent") {
  InprocNetwork network(3);
  std::latch all_have_it(3), given_up(3);
  std::array<Result<std::unique_ptr<Communicator>>, 3> groups;
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto& group = groups[static_cast<std::size_t>(rank)];
    group = communicator.Split(0, -rank);
    REQUIRE(group);
    all_have_it.arrive_and_wait();
    if (rank == 1) communicator.Abort("no room is left");
    if (rank == 2) {
      while (!communicator.failure()) communicator.Progress();
      group->reset();
    }
    given_up.arrive_and_wait();
    if (rank != 0) return;
    std::vector<float> values(16);
    const Status status = (*group)->AllReduce(values.data(), values.data(), 16, DataType::kFloat32, ReduceOp::kSum,
                                              {.algorithm = Algorithm::kDirect});
    CAPTURE(TextOf(status));
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kPeerAborted);
    CHECK(status.error().culprit() == 1);
    CHECK(status.error().details().first_cause.find("no room is left") != std::string::npos);
  });
}

TEST_CASE(
    "of two that disagree, one that learns of it in a group gets the name of the other, not of the rank that passed it "
    "on") {
  // In the parent, rank 0 broadcasts less than rank 2 expects. Rank 2 detects this only when rank 0 has already
  // returned from its call. Rank 1 gets rank 2's notice, and notifies rank 0 in their group, in which the order of the
  // ranks is reversed.
  InprocNetwork network(3);
  std::latch others_are_done(2), found(2), passed_on(1);
  std::array<Result<std::unique_ptr<Communicator>>, 3> groups;  // rank 2 does not use its group
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto& group = groups[static_cast<std::size_t>(rank)];
    group = communicator.Split(0, -rank);
    REQUIRE(group);
    std::vector<float> values(17);
    if (rank == 2) others_are_done.wait();
    const Status sent = communicator.Broadcast(values.data(), values.data(), rank == 2 ? 17 : 16, DataType::kFloat32, 0,
                                               {.algorithm = Algorithm::kTree});
    CHECK(sent.has_value() == (rank != 2));
    if (rank != 2) others_are_done.count_down();
    if (rank == 2) {
      CHECK(sent.error().code() == ErrorCode::kMismatch);
      CHECK(sent.error().culprit() == 0);
      return found.count_down();
    }
    if (rank == 1) {
      found.arrive_and_wait();
      while (!communicator.failure()) communicator.Progress();
      CHECK(communicator.failure()->culprit() == 0);
    }
    if (rank == 0) passed_on.wait();  // so that rank 1's notice is the first that rank 0 gets
    const Status status = (*group)->AllReduce(values.data(), values.data(), 16, DataType::kFloat32, ReduceOp::kSum,
                                              {.algorithm = Algorithm::kDirect});  // connects each rank with all others
    if (rank == 1) passed_on.count_down();
    CAPTURE(rank);
    CAPTURE(TextOf(status));
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kMismatch);
    // In the parent's ranks: rank 0 names rank 2, and rank 1 names rank 0.
    CHECK(status.error().culprit() == (rank == 0 ? 0 : 2));
  });
}

// Calls `body` on ranks 1 and 3 of four, with the group of these two; the other ranks wait.
void InGroupOfTwo(const std::function<void(Communicator& parent, Communicator& group)>& body) {
  InprocNetwork network(4);
  OnRanks(network, [&](Communicator& communicator) {
    const bool belongs = communicator.rank() % 2 == 1;
    auto group = communicator.Split(belongs ? 1 : -1, communicator.rank());
    REQUIRE(group);
    if (belongs) body(communicator, **group);
  });
}

// Checks that the text names both ranks, each by its rank in the job and by its rank in the group.
void CheckNamesBoth(const std::string& text) {
  CAPTURE(text);
  CHECK(text.find("rank 1 (rank 0 of group 0.1.1)") != std::string::npos);
  CHECK(text.find("rank 3 (rank 1 of group 0.1.1)") != std::string::npos);
}

TEST_CASE("errors of a group name the job's ranks, and the group's beside, in whatever way they are got") {
  InGroupOfTwo([](Communicator&, Communicator& group) {
    std::vector<float> values(32);
    const std::uint64_t count = group.rank() == 0 ? 16 : 17;
    Work work = group.AllReduceAsync(values.data(), values.data(), count, DataType::kFloat32, ReduceOp::kSum);
    std::string error_text;
    std::latch has_received(1);
    work.Then([&](const Status& status) {
      error_text = TextOf(status);
      has_received.count_down();
    });
    const Status failed = work.Wait();
    has_received.wait();
    REQUIRE(!failed);
    CHECK(failed.error().code() == ErrorCode::kMismatch);
    // The fields of the error contain ranks of the group.
    CHECK(failed.error().culprit() == 1 - group.rank());
    CheckNamesBoth(TextOf(failed));
    CheckNamesBoth(error_text);
    CheckNamesBoth(group.failure()->ToString());
    CheckNamesBoth(TextOf(group.Barrier()));
    CheckNamesBoth(TextOf(group.BarrierAsync().Wait()));
    CheckNamesBoth(TextOf(group.Close()));
    CheckNamesBoth(group.DumpRecords());
    const auto refused = group.Split(0, 0);
    REQUIRE(!refused);
    CheckNamesBoth(refused.error().ToString());
  });
}

TEST_CASE("a receive of a group that ends at its timeout names the job's rank that sent nothing") {
  InGroupOfTwo([](Communicator&, Communicator& group) {
    if (group.rank() == 0) {
      const auto got = group.Recv(nullptr, 0, DataType::kUint8, 1, 7, {.timeout = 20ms});
      REQUIRE(!got);
      CheckNamesBoth(got.error().ToString());
    }
    CHECK(group.Barrier());  // the other rank was alive all the time
    CHECK(group.Close());
  });
}

TEST_CASE("a program's reason for the abort of a group is reported as it was given") {
  std::barrier<> connected(2);
  InGroupOfTwo([&](Communicator&, Communicator& group) {
    CHECK(group.Barrier());
    connected.arrive_and_wait();
    if (group.rank() == 1) return group.Abort("rank 0 of the table is empty");
    while (!group.failure()) group.Progress();
    const std::string text = group.failure()->ToString();
    CAPTURE(text);
    CHECK(text.find("peer_aborted: rank 3 (rank 1 of group 0.1.1) aborted: rank 0 of the table is empty") == 0);
  });
}

TEST_CASE("a group of a group names the job's ranks, not its parent's") {
  std::barrier<> have_it(2);
  InGroupOfTwo([&](Communicator&, Communicator& group) {
    auto inner = group.Split(0, -group.rank());  // rank 0 of `inner` is rank 3 of the job
    REQUIRE(inner);
    have_it.arrive_and_wait();
    if (group.rank() == 0) return group.Abort("as the test wants it");
    while (!group.failure()) group.Progress();
    const std::string text = TextOf((*inner)->Barrier());
    CAPTURE(text);
    CHECK(text.find("caused by rank 1 (rank 1 of group 0.1.1.1.0)") != std::string::npos);
  });
}

TEST_CASE("a communicator with a frame names its ranks by it, and a frame of another size is refused") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [](Communicator& communicator) {
        std::vector<float> values(32);
        const std::uint64_t count = communicator.rank() == 0 ? 16 : 17;
        const Status failed =
            communicator.AllReduce(values.data(), values.data(), count, DataType::kFloat32, ReduceOp::kSum);
        const std::string text = TextOf(failed ? communicator.Close() : failed);
        CAPTURE(text);
        CHECK(text.find("rank 5 (rank 0 of group tp)") != std::string::npos);
        CHECK(text.find("rank 7 (rank 1 of group tp)") != std::string::npos);
      },
      [](CommunicatorOptions& options) {
        options.frame = std::make_shared<const RankFrame>(RankFrame{"tp", {5, 7, 9}});
        const auto refused = Communicator::Create(options);
        REQUIRE(!refused);
        CHECK(TextOf(Status(Fail(refused.error()))).find("names 3 ranks, but the group has 2") != std::string::npos);
        options.frame = std::make_shared<const RankFrame>(RankFrame{"tp", {5, 7}});
      });
}

TEST_CASE("a group at work does without those who are not in it") {
  InprocNetwork network(3);
  std::latch left(3);  // without this latch, rank 2 could die before the barrier has ended on all ranks
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto group = communicator.Split(rank == 2 ? -1 : 0, rank);
    REQUIRE(group);
    if (rank != 2) CHECK((*group)->Barrier());
    CHECK(communicator.Barrier());
    left.arrive_and_wait();
    if (rank == 2) return network.Kill(2);
    CHECK_FALSE(communicator.Barrier());
    // rank 1 sleeps, so that rank 0 waits for it and checks for failures meanwhile
    std::this_thread::sleep_for(rank * 250ms);
    CHECK((*group)->Barrier());
    CHECK((*group)->Close());
  });
}

}  // namespace split_test
}  // namespace rondo
