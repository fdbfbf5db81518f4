// Arm, Disarm and Wake: an owner may sleep, and must never miss a wake-up.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/conformance/world.h"
#include "tests/support/pattern.h"

namespace rondo::conformance {
namespace wake_test {

// Polls and calls `look` until the owner may sleep, that is, until it has seen all events.
void UntilQuiet(World& world, Rank rank, const std::function<void()>& look) {
  world.Until("the owner may sleep", [&] {
    world.endpoint(rank).Poll(world.network().Now());
    look();
    const bool news = world.endpoint(rank).Arm();
    world.endpoint(rank).Disarm();
    return !news;
  });
}

TEST_CASE("an owner may sleep when nothing happens, and bytes wake it") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    for (int round = 0; round < 3; ++round) {
      UntilQuiet(world, 1, [&] { CHECK(b->Peek(1).size() == 0); });
      world.Until("a byte is accepted", [&] { return Put(*a, "!") == 1; });
      std::string got;
      while (got.empty()) {
        world.Sleep(1);
        world.endpoint(1).Poll(world.network().Now());
        got = Take(*b, 1);
      }
      CHECK(got == "!");
    }
  }
}

TEST_CASE("a full lane's owner is woken when the peer has made room") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    const std::vector<std::byte> source(64 * 1024);
    for (int refusals = 0; refusals < 200; world.Poll()) refusals = Put(*a, source) == 0 ? refusals + 1 : 0;
    bool took_more = false;
    UntilQuiet(world, 0, [&] { took_more = took_more || Put(*a, Bytes(source).first(1)) > 0; });

    // The peer reads more than half of the bytes. The owner does not poll meanwhile, and must be woken.
    std::vector<std::byte> destination(64 * 1024);
    const std::uint64_t ahead = a->accepted();
    world.Until("everything is read", [&] {
      // Only the reader polls.
      b->ReadInto(destination);
      return b->consumed() >= ahead / 2 + 1;
    });
    std::size_t accepted = 0;
    while (accepted == 0) {
      if (fixture.threads) {
        // If a kernel buffers bytes, the lane may have room only after the peer has read the remaining bytes.
        for (int i = 0; i < 1000 && b->consumed() < ahead; ++i) {
          world.endpoint(1).Poll(world.network().Now());
          b->ReadInto(destination);
        }
      }
      world.Sleep(0);
      world.endpoint(0).Poll(world.network().Now());
      accepted = Put(*a, Bytes(source).first(1));
    }
    CHECK(accepted == 1);
  }
}

TEST_CASE("a Wake before Arm makes Arm answer true, once, also when a Poll came between") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Endpoint& endpoint = world.endpoint(0);
    const auto look = [&] { CHECK(a->Peek(1).size() == 0); };
    UntilQuiet(world, 0, look);
    endpoint.Wake();
    CHECK(endpoint.Arm());
    endpoint.Disarm();
    UntilQuiet(world, 0, look);
    endpoint.Wake();
    endpoint.Poll(world.network().Now());
    CHECK(endpoint.Arm());
    endpoint.Disarm();
    UntilQuiet(world, 0, look);
  }
}

TEST_CASE("Wake from another thread wakes a sleeping owner, every time") {
  for (const Fixture& fixture : Fixtures()) {
    if (!fixture.threads) continue;
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Endpoint& endpoint = world.endpoint(0);
    std::atomic<int> said{0};
    std::atomic<int> seen{0};
    std::thread waker([&] {
      for (int i = 1; i <= 500; ++i) {
        said = i;
        endpoint.Wake();
        while (seen < i) std::this_thread::yield();
      }
    });
    bool lost = false;
    while (seen < 500 && !lost) {
      endpoint.Poll(world.network().Now());
      if (seen != said)
        seen = said.load();
      else
        lost = !SleepOn(endpoint, fixture.patience);
    }
    CHECK_FALSE(lost);
    seen = 500;
    waker.join();
  }
}

// Two threads each own one end and sleep whenever their lane has nothing to do. If either side loses a wake-up, both
// sleep forever.
TEST_CASE("no wake-up is lost between two threads that sleep at every turn") {
  for (const Fixture& fixture : Fixtures()) {
    if (!fixture.threads) continue;
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    const std::uint64_t total = std::min<std::uint64_t>(fixture.traffic_bytes, 64 * 1024) / 4;
    std::atomic<bool> failed{false};
    const auto run = [&](Rank rank) {
      Endpoint& endpoint = world.endpoint(rank);
      Lane& lane = world.lane(rank, 1 - rank);
      Random random(rank + 10);
      std::vector<std::byte> source(total);
      FillPattern(rank, 0, source);
      std::vector<std::byte> destination(total);
      while (!failed && (lane.consumed() < total || lane.released() < total)) {
        endpoint.Poll(world.network().Now());
        // Each burst is followed by a pause of a random number of instructions, so that a side calls Arm at every
        // possible moment of the other side's work.
        const std::size_t burst = 1 + random.Below(200);
        const Bytes rest = Bytes(source).subspan(lane.accepted());
        bool moved = false;
        // A side writes no further burst while it is ahead of its peer. So both sides often have nothing to do, and
        // sleep.
        if (lane.accepted() <= lane.consumed()) moved = Put(lane, rest.first(std::min(burst, rest.size()))) > 0;
        for (std::uint64_t i = random.Below(300); i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
        moved = lane.ReadInto(MutableBytes(destination).subspan(lane.consumed())) > 0 || moved;
        if (!moved && !(lane.consumed() == total && lane.released() == total))
          if (!SleepOn(endpoint, fixture.patience)) failed = true;
      }
      if (PatternMismatch(1 - rank, 0, destination)) failed = true;
      world.endpoint(rank).Wake();
    };
    std::thread other([&] { run(1); });
    run(0);
    other.join();
    CHECK_FALSE(failed);
  }
}

TEST_CASE("a sleeper wakes for control messages and for a peer's death") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world(fixture, 2);
    // As in a communicator, the thread that receives a control message wakes the owner.
    for (Rank rank : {0, 1}) world.Join(rank);
    world.Connect(0, 1);
    Lane* b = &world.lane(1, 0);
    Endpoint& sleeper = world.endpoint(1);
    world.recorder(1).on_control = [&](Rank, const ControlMessage&) { sleeper.Wake(); };
    UntilQuiet(world, 1, [&] { CHECK(b->Peek(1).size() == 0); });
    REQUIRE(world.endpoint(0).SendControl(1, {ControlKind::kHeartbeat, "knock"}));
    while (world.recorder(1).controls().empty()) {
      world.Sleep(1);
      world.endpoint(1).Poll(world.network().Now());
    }
    CHECK(world.recorder(1).controls()[0].message.body == "knock");

    UntilQuiet(world, 1, [&] { CHECK(b->Peek(1).size() == 0); });
    world.Kill(0);
    while (b->state() == LaneState::kOpen) {
      world.Sleep(1);
      world.endpoint(1).Poll(world.network().Now());
      CHECK(b->Peek(1).size() == 0);
    }
  }
}

}  // namespace wake_test
}  // namespace rondo::conformance
