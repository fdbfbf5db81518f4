// Each connection reaches the intended peer: lanes by index, endpoints by communicator and rail, ranks in worlds of
// every size.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "tests/conformance/traffic.h"
#include "tests/conformance/world.h"
#include "transport/lane_index.h"

namespace rondo::conformance {
namespace names_test {

std::string Name(Rank from, Rank to, std::uint64_t communicator, std::uint32_t rail, std::uint32_t index) {
  return std::to_string(from) + ">" + std::to_string(to) + " c" + std::to_string(communicator) + " r" +
         std::to_string(rail) + " #" + std::to_string(index) + ";";
}

// Sends this side's name for the lane over the lane, and expects to receive the peer's name for it.
struct Introduction {
  Lane* lane;
  std::string mine;
  std::string theirs;
  std::string got;
  bool Step() {
    if (lane->accepted() < mine.size()) Put(*lane, AsBytes(mine).subspan(lane->accepted()));
    got += Take(*lane, 64);
    return lane->accepted() == mine.size() && got.size() >= theirs.size();
  }
};

void IntroduceAll(World& world, std::vector<Introduction>& all) {
  world.Until("all lanes have said their names", [&] {
    bool done = true;
    for (auto& one : all) done = one.Step() && done;
    return done;
  });
  for (auto& one : all) CHECK(one.got == one.theirs);
}

TEST_CASE("a lane is the same lane at every Open, and its index says which one it is at the peer") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    const std::uint32_t lanes = 32;
    const std::uint32_t apart = (kMaxLanesPerPeer - 1) / (lanes - 1);
    static_assert((lanes - 1) * apart == kMaxLanesPerPeer - 1, "the last lane has the highest index");
    std::vector<Introduction> all;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      // The two ranks open the lanes in opposite orders. Indices need not be consecutive.
      const std::uint32_t index = i * apart;
      const std::uint32_t other = (lanes - 1 - i) * apart;
      all.push_back({&world.lane(0, 1, index), Name(0, 1, 1, 0, index), Name(1, 0, 1, 0, index), ""});
      all.push_back({&world.lane(1, 0, other), Name(1, 0, 1, 0, other), Name(0, 1, 1, 0, other), ""});
    }
    for (std::uint32_t i = 0; i < lanes; ++i) CHECK(&world.lane(0, 1, i * apart) == all[2 * i].lane);
    IntroduceAll(world, all);
    // All lanes share one control connection.
    CHECK(world.endpoint(0).ControlPeers() == std::vector<Rank>{1});
    CHECK(world.endpoint(1).ControlPeers() == std::vector<Rank>{0});
  }
}

TEST_CASE("communicators and rails of one transport do not mix") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world(fixture, 2);
    std::vector<Introduction> all;
    for (Rank rank : {0, 1})
      for (std::uint64_t communicator : {1, 2})
        for (std::uint32_t rail : {0, 1}) {
          auto lane = world.Join(rank, communicator, rail).Open(1 - rank, 0);
          REQUIRE(lane.has_value());
          all.push_back(
              {*lane, Name(rank, 1 - rank, communicator, rail, 0), Name(1 - rank, rank, communicator, rail, 0), ""});
        }
    IntroduceAll(world, all);
    REQUIRE(world.endpoint(0, 2, 1).SendControl(1, {ControlKind::kHeartbeat, "for 2.1"}));
    world.Until("it is there", [&] { return !world.recorder(1, 2, 1).controls().empty(); });
    world.Settle();
    CHECK(world.recorder(1, 1, 0).controls().empty());
    CHECK(world.recorder(1, 1, 1).controls().empty());
    CHECK(world.recorder(1, 2, 0).controls().empty());
  }
}

TEST_CASE("every pair of a world of 2 to 5 ranks talks at once") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    for (int size = 2; size <= 5; ++size) {
      CAPTURE(size);
      World world = World::Everybody(fixture, size);
      const std::uint64_t total = std::min<std::uint64_t>(fixture.traffic_bytes / 16, 8000);
      Random random(size);
      std::deque<Sender> senders;
      std::deque<Receiver> receivers;
      for (Rank from = 0; from < size; ++from)
        for (Rank to = 0; to < size; ++to) {
          if (from == to) continue;
          const std::uint64_t pattern = from * 100 + to;
          senders.emplace_back(world.lane(from, to), world.capabilities(), pattern, total, random.Split());
          receivers.emplace_back(world.lane(to, from), world.capabilities(), pattern, total, random.Split());
        }
      world.Until("everything has been read", [&] {
        bool done = true;
        for (Sender& sender : senders) {
          if (!sender.Done()) sender.Step();
          done = done && sender.Done();
        }
        for (Receiver& receiver : receivers) {
          if (!receiver.Done()) receiver.Step();
          done = done && receiver.Done();
        }
        return done;
      });
    }
  }
}

TEST_CASE("a transport says who it is and gives memory") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    for (Rank rank : {0, 1}) {
      Transport& transport = *world.network().transport(rank);
      CHECK_FALSE(transport.name().empty());
      CHECK_FALSE(transport.Address().empty());
      CHECK(transport.Address().size() <= kMaxAddressBytes);
      CHECK_FALSE(transport.DescribeAddress().empty());
    }
    CHECK(world.network().transport(0)->Address() != world.network().transport(1)->Address());
    world.Connect(0, 1);
    CHECK_FALSE(world.endpoint(0).DescribePeer(1).empty());

    Transport& transport = *world.network().transport(0);
    auto memory = transport.Allocate(10'000);
    REQUIRE(memory.has_value());
    const MutableBytes bytes = (*memory)->bytes();
    CHECK(bytes.size() == 10'000);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0);
    CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
    CHECK(transport.Register(bytes).has_value());
    CHECK(transport.Allocate(0).has_value());
    const auto absurd = transport.Allocate(std::size_t{1} << 60);
    REQUIRE_FALSE(absurd.has_value());
    CHECK(absurd.error().code() == ErrorCode::kOutOfMemory);
    CHECK(absurd.error().message().find(std::to_string(std::size_t{1} << 60)) != std::string::npos);
  }
}

}  // namespace names_test
}  // namespace rondo::conformance
