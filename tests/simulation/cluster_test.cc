// The basis of the scenarios: fibers, processes that run one at a time on virtual time, and their store.
#include "simulation/cluster.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "simulation/fibers.h"
#include "simulation/store_node.h"

namespace rondo::simulation {
namespace cluster_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a fiber goes on where it suspended itself, with what lay on its stack") {
  FiberStacks stacks;
  std::string log;
  Fiber* self = nullptr;
  Fiber fiber(stacks, [&] {
    std::string mine = "a";
    for (int i = 0; i < 3; ++i) {
      log += mine;
      mine += "b";
      self->Suspend();
    }
  });
  self = &fiber;
  for (int turns = 0; !fiber.ended(); ++turns) {
    REQUIRE(turns < 4);
    fiber.Resume();
    log += "|";
  }
  CHECK(log == "a|ab|abb||");
}

TEST_CASE("fibers have stacks of their own, and a stack serves one after the other") {
  FiberStacks stacks;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Fiber>> fibers(20);
    int sum = 0;
    for (int i = 0; i < 20; ++i)
      fibers[static_cast<std::size_t>(i)] = std::make_unique<Fiber>(stacks, [&, i] {
        char deep[64 * 1024];
        for (char& c : deep) c = static_cast<char>(i);
        fibers[static_cast<std::size_t>(i)]->Suspend();
        for (const char c : deep) sum += c == static_cast<char>(i);
      });
    for (int turn = 0; turn < 2; ++turn)
      for (auto& fiber : fibers) fiber->Resume();
    CHECK(sum == 20 * 64 * 1024);
  }
}

struct Town {
  explicit Town(int ranks, std::uint64_t seed = 1) : network(Options(ranks)), cluster(network, stacks, seed) {}
  static SimOptions Options(int ranks) {
    SimOptions options{.world_size = ranks, .clock = nullptr};
    options.control_thread = true;
    return options;
  }
  TimePoint Now() const { return network.clock()->Now(); }

  FiberStacks stacks;
  SimNetwork network;
  Cluster cluster;
};

TEST_CASE("processes wait on virtual time, each until its own") {
  Town town(3);
  const TimePoint start = town.Now();
  std::string order;
  for (const Rank rank : {0, 1, 2})
    town.cluster.Spawn(rank, [&, rank] {
      town.cluster.Await([] { return false; }, start + seconds(10 - rank));
      order += std::to_string(rank);
    });
  CHECK(town.cluster.Run(start + seconds(60)) == Cluster::End::kDone);
  CHECK(order == "210");
  CHECK(town.Now() == start + seconds(10));
}

TEST_CASE("who goes first is drawn from the seed") {
  std::vector<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Town town(4, seed);
    std::string order;
    for (const Rank rank : {0, 1, 2, 3}) town.cluster.Spawn(rank, [&, rank] { order += std::to_string(rank); });
    CHECK(town.cluster.Run(town.Now() + seconds(1)) == Cluster::End::kDone);
    orders.push_back(order);
  }
  CHECK(std::count(orders.begin(), orders.end(), orders.front()) < 10);
}

TEST_CASE("Run reports when time is over, and when nothing will ever happen") {
  Town town(1);
  bool go = false;
  town.cluster.Spawn(0, [&] { town.cluster.Await([&] { return go; }, TimePoint::max()); });
  CHECK(town.cluster.Run(town.Now() + seconds(1)) == Cluster::End::kStuck);
  town.network.At(town.Now() + seconds(5), [] {});
  CHECK(town.cluster.Run(town.Now() + seconds(1)) == Cluster::End::kLate);
  go = true;
  town.cluster.Notify(0);
  CHECK(town.cluster.Run(town.Now() + seconds(1)) == Cluster::End::kDone);
}

TEST_CASE("a stopped process does nothing until it goes on, also where its time is over") {
  Town town(2);
  const TimePoint start = town.Now();
  TimePoint woke;
  town.network.Pause(0, start + milliseconds(1), start + seconds(3));
  town.cluster.Spawn(0, [&] {
    town.cluster.Await([] { return false; }, start + seconds(1));
    woke = town.Now();
  });
  CHECK(town.cluster.Run(start + seconds(60)) == Cluster::End::kDone);
  CHECK(woke == start + seconds(3));
}

TEST_CASE("a killed process is unwound at once") {
  Town town(1);
  const TimePoint start = town.Now();
  bool notified = false, unwound = false;
  town.cluster.Spawn(
      0,
      [&] {
        CHECK_FALSE(town.cluster.Await([] { return false; }, start + seconds(50)));
        CHECK(town.cluster.dying());
        unwound = true;
      },
      [&] { notified = true; });
  town.network.Kill(0, start + seconds(1));
  CHECK(town.cluster.Run(start + seconds(60)) == Cluster::End::kDone);
  CHECK(notified);
  CHECK(unwound);
  CHECK(town.Now() == start + seconds(1));
}

// ---- the store ----

StoreClient::Options Client(Rank self, TimePoint deadline) {
  return {.place = {.server = 2, .port = 0}, .self = self, .clients = 2, .job = "j", .deadline = deadline};
}

TEST_CASE("two processes use a simulated store, and one waits for what the other writes") {
  Town town(3);
  StoreNode store(town.network, town.cluster, 2, /*clients=*/2, /*ports=*/1);
  const TimePoint deadline = town.Now() + seconds(5);
  std::string value;
  town.cluster.Spawn(0, [&] {
    auto client = StoreClient::Connect(town.network, town.cluster, Client(0, deadline));
    REQUIRE(client.has_value());
    value = (*client)->WaitFor("key", deadline).value();
  });
  town.cluster.Spawn(1, [&] {
    auto client = StoreClient::Connect(town.network, town.cluster, Client(1, deadline));
    REQUIRE(client.has_value());
    town.cluster.Await([] { return false; }, town.Now() + seconds(1));
    CHECK((*client)->Add("n", 5, deadline).value() == 5);
    CHECK((*client)->Set("key", std::string(10'000, 'v'), deadline));
  });
  CHECK(town.cluster.Run(town.Now() + seconds(10)) == Cluster::End::kDone);
  CHECK(value == std::string(10'000, 'v'));
}

TEST_CASE("a key that does not come is named by the store, and a stalled one is not named") {
  Town town(3);
  StoreNode store(town.network, town.cluster, 2, 2, 1);
  const TimePoint start = town.Now();
  store.Stall("slow", start + seconds(60));
  town.cluster.Spawn(0, [&] {
    auto client = StoreClient::Connect(town.network, town.cluster, Client(0, start + seconds(5)));
    REQUIRE(client.has_value());
    const auto missing = (*client)->WaitFor("missing", start + seconds(1));
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().message().find("1 of 1 keys did not appear in time: 'missing'") != std::string::npos);
    const auto stalled = (*client)->Set("slow/1", "x", start + seconds(2));
    REQUIRE_FALSE(stalled.has_value());
    CHECK(stalled.error().code() == ErrorCode::kStoreTimeout);
    CHECK((*client)->Set("quick", "x", start + seconds(3)));
  });
  CHECK(town.cluster.Run(start + seconds(10)) == Cluster::End::kDone);
  CHECK(store.stalled() == 1);
}

TEST_CASE("a store that dies is lost to all its clients at once") {
  Town town(3);
  StoreNode store(town.network, town.cluster, 2, 2, 1);
  const TimePoint start = town.Now();
  town.network.Kill(2, start + seconds(1));
  for (const Rank rank : {0, 1})
    town.cluster.Spawn(rank, [&, rank] {
      auto client = StoreClient::Connect(town.network, town.cluster, Client(rank, start + seconds(5)));
      REQUIRE(client.has_value());
      const auto lost = (*client)->WaitFor("key", start + seconds(5));
      REQUIRE_FALSE(lost.has_value());
      CHECK(lost.error().code() == ErrorCode::kStoreLost);
      CHECK(town.Now() < start + seconds(2));
    });
  CHECK(town.cluster.Run(start + seconds(10)) == Cluster::End::kDone);
}

}  // namespace cluster_test
}  // namespace rondo::simulation
