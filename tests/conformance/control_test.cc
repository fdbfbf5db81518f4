// Control messages, goodbyes, and the death of a peer.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/conformance/world.h"
#include "tests/support/pattern.h"
#include "tests/support/threads.h"

namespace rondo::conformance {
namespace control_test {

std::string BodyOf(int number) {
  const std::size_t sizes[] = {0, 1, 17, 200, 1000, kMaxControlBodyBytes};
  std::string body(sizes[number % 6], '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(PatternAt(number, i));
  return body;
}

TEST_CASE("control messages arrive in order, of every size, both ways") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    const int count = 60;
    for (int i = 0; i < count; ++i) {
      const auto kind = i % 2 == 0 ? ControlKind::kHeartbeat : ControlKind::kAbort;
      REQUIRE(world.endpoint(0).SendControl(1, {kind, BodyOf(i)}));
      REQUIRE(world.endpoint(1).SendControl(0, {kind, BodyOf(i + 1000)}));
      world.Poll();
    }
    world.Until("all are there", [&] {
      return world.recorder(0).controls().size() == count && world.recorder(1).controls().size() == count;
    });
    for (Rank rank : {0, 1}) {
      const auto controls = world.recorder(rank).controls();
      for (int i = 0; i < count; ++i) {
        CHECK(controls[i].from == 1 - rank);
        CHECK(controls[i].message.kind == (i % 2 == 0 ? ControlKind::kHeartbeat : ControlKind::kAbort));
        REQUIRE(controls[i].message.body == BodyOf(rank == 1 ? i : i + 1000));
      }
    }
  }
}

TEST_CASE("a control message sent before the peer has opened anything waits for it") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world(fixture, 2);
    world.Join(0);
    world.lane(0, 1);
    REQUIRE(world.endpoint(0).SendControl(1, {ControlKind::kAbort, "early"}));
    for (int i = 0; i < 20; ++i) world.Poll();
    world.Join(1);
    world.Until("it is there", [&] { return !world.recorder(1).controls().empty(); });
    CHECK(world.recorder(1).controls()[0].from == 0);
    CHECK(world.recorder(1).controls()[0].message.body == "early");
  }
}

TEST_CASE("control goes to peers that share a lane, whichever side opened it, and to no others") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 3);
    CHECK_FALSE(world.endpoint(0).SendControl(1, {ControlKind::kHeartbeat, ""}));
    CHECK(world.endpoint(0).ControlPeers().empty());
    world.lane(0, 1);
    CHECK(world.endpoint(0).ControlPeers() == std::vector<Rank>{1});
    world.Until("the other side knows", [&] { return world.endpoint(1).ControlPeers() == std::vector<Rank>{0}; });
    REQUIRE(world.endpoint(1).SendControl(0, {ControlKind::kHeartbeat, "back"}));
    CHECK_FALSE(world.endpoint(1).SendControl(2, {ControlKind::kHeartbeat, "no peer"}));
    world.Until("it is there", [&] { return world.recorder(0).controls().size() == 1; });
    world.Settle();
    CHECK(world.recorder(2).controls().empty());
    CHECK(world.endpoint(2).ControlPeers().empty());
  }
}

TEST_CASE("an observer may answer from inside") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    world.recorder(1).on_control = [&](Rank from, const ControlMessage& message) {
      world.endpoint(1).Wake();
      CHECK(world.endpoint(1).SendControl(from, {ControlKind::kHeartbeat, "re: " + message.body}));
    };
    REQUIRE(world.endpoint(0).SendControl(1, {ControlKind::kHeartbeat, "hello"}));
    world.Until("the answer is there", [&] { return !world.recorder(0).controls().empty(); });
    CHECK(world.recorder(0).controls()[0].message.body == "re: hello");
  }
}

TEST_CASE("control may be sent from any thread while the owner works") {
  for (const Fixture& fixture : Fixtures()) {
    if (!fixture.threads) continue;
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Threads threads(3, [&world](int t) {
      for (int i = 0; i < 50; ++i)
        CHECK(world.endpoint(0).SendControl(1, {ControlKind::kHeartbeat, std::to_string(t * 1000 + i)}));
    });
    world.Until("all are there", [&] { return world.recorder(1).controls().size() == 150; });
    threads.Join();
    int last[3] = {-1, -1, -1};
    for (const auto& control : world.recorder(1).controls()) {
      const int number = std::stoi(control.message.body);
      CHECK(number % 1000 == last[number / 1000] + 1);  // messages of each sending thread arrive in order
      last[number / 1000] = number % 1000;
    }
  }
}

TEST_CASE("when a peer dies, what it had sent can be read, its lanes end, and it is named once") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 3);
    world.Connect(2, 0);
    Lane* dying = &world.lane(2, 0);
    Lane* reader = &world.lane(0, 2);
    world.Connect(2, 1);
    Lane* other = &world.lane(1, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    std::vector<std::byte> source(1000);
    FillPattern(2, 0, source);
    for (int i = 0; i < 300 && dying->accepted() < source.size(); ++i) {
      Put(*dying, Bytes(source).subspan(dying->accepted()));
      world.Poll();
    }
    for (int i = 0; i < 50; ++i) world.Poll();
    const std::uint64_t accepted = dying->accepted();
    const std::uint64_t released = dying->released();
    world.Kill(2);

    std::vector<std::byte> got(source.size());
    world.Until("the survivors know", [&] {
      reader->ReadInto(MutableBytes(got).subspan(reader->consumed()));
      other->Peek(1);
      const auto over = [](Lane* lane) {
        CHECK((lane->state() == LaneState::kFailed) == (lane->failure() != nullptr));
        return lane->state() == LaneState::kFailed || lane->state() == LaneState::kEnded;
      };
      return over(reader) && over(other) && world.recorder(0).Lost(2) && world.recorder(1).Lost(2);
    });
    CHECK(reader->consumed() >= released);
    CHECK(reader->consumed() <= accepted);
    CHECK_FALSE(PatternMismatch(2, 0, Bytes(got).first(reader->consumed())));

    // Writing to a dead peer has no effect and causes no failure, even if it is repeated.
    for (int i = 0; i < 50; ++i) {
      Put(*reader, "are you there?");
      world.Poll();
    }
    if (const Error* failure = reader->failure()) CHECK(failure->culprit() == 2);
    CHECK(a->state() == LaneState::kOpen);
    REQUIRE(Put(*a, "x") == 1);
    std::string still;
    world.Until("the survivors still talk", [&] { return !(still = Take(*b, 1)).empty(); });
    world.Settle();
    for (Rank rank : {0, 1}) {
      const auto losses = world.recorder(rank).losses();
      REQUIRE(losses.size() == 1);
      CHECK(losses[0].peer == 2);
      CHECK(losses[0].error.culprit() == 2);
      CHECK(losses[0].error.code() == ErrorCode::kPeerLost);
      CHECK(losses[0].error.message().find("rank 2") != std::string::npos);
    }
  }
}

TEST_CASE("after goodbye and shutting down, a leaving peer is no loss") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    REQUIRE(Put(*a, "b") == 1);
    for (Rank rank : {0, 1}) REQUIRE(world.endpoint(rank).SendControl(1 - rank, {ControlKind::kGoodbye, "done"}));
    std::string got;
    world.Until("the goodbyes and the last byte are there", [&] {
      got += Take(*b, 10);
      return got == "b" && world.recorder(0).controls().size() == 1 && world.recorder(1).controls().size() == 1;
    });
    world.Until("the last byte is released", [&] { return a->released() == 1; });
    world.endpoint(0).ShutDown();
    CHECK(Put(*a, "too late") == 0);
    world.Until("the lane has ended", [&] {
      CHECK(b->Peek(1).size() == 0);
      REQUIRE(b->state() != LaneState::kFailed);
      return b->state() == LaneState::kEnded;
    });
    world.Leave(0);
    world.Settle();
    CHECK(b->state() == LaneState::kEnded);
    world.endpoint(1).ShutDown();
    world.Settle();
    world.Leave(1);
    CHECK(world.recorder(0).losses().empty());
    CHECK(world.recorder(1).losses().empty());
    CHECK(world.recorder(1).controls()[0].message.kind == ControlKind::kGoodbye);
  }
}

TEST_CASE("everything written before ShutDown arrives before the lane has ended") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    std::vector<std::byte> source(3000);
    FillPattern(1, 0, source);
    std::vector<std::byte> got(source.size());
    for (int i = 0; i < 500 && a->accepted() < source.size(); ++i) {
      Put(*a, Bytes(source).subspan(a->accepted()));
      world.Poll();
    }
    world.endpoint(0).ShutDown();
    world.Until("the lane has ended", [&] {
      b->ReadInto(MutableBytes(got).subspan(b->consumed(), std::min<std::size_t>(70, got.size() - b->consumed())));
      return b->state() != LaneState::kOpen;
    });
    CHECK(b->state() == LaneState::kEnded);
    CHECK(b->consumed() == a->accepted());
    CHECK_FALSE(PatternMismatch(1, 0, Bytes(got).first(b->consumed())));
    // The other direction still works.
    std::string back;
    world.Until("a byte comes back", [&] {
      if (b->accepted() == 0) Put(*b, "!");
      return !(back = Take(*a, 1)).empty();
    });
    CHECK(back == "!");
  }
}

TEST_CASE("a peer that connects after a rank has left gets what that rank left behind") {
  for (const Fixture& fixture : Fixtures()) {
    for (const Rank leaver : {0, 2}) {
      for (const bool is_destroyed : {false, true}) {
        CAPTURE(fixture.name);
        CAPTURE(leaver);
        CAPTURE(is_destroyed);
        World world = World::Everybody(fixture, 3);
        const Rank known = 2 - leaver;
        world.Connect(leaver, known);
        REQUIRE(world.endpoint(leaver).SendControl(known, {ControlKind::kGoodbye, "done"}));
        world.Until("who is connected has it", [&] { return world.recorder(known).controls().size() == 1; });
        world.endpoint(leaver).LeaveBehind({ControlKind::kGoodbye, "an earlier one"});
        world.endpoint(leaver).LeaveBehind({ControlKind::kGoodbye, "done"});
        world.endpoint(leaver).ShutDown();
        if (is_destroyed) world.Leave(leaver);
        world.lane(1, leaver);
        world.Until("the late one has it", [&] { return !world.recorder(1).controls().empty(); });
        world.Settle();
        for (const Rank peer : {known, 1}) {
          const auto controls = world.recorder(peer).controls();
          REQUIRE(controls.size() == 1);
          CHECK(controls[0].from == leaver);
          CHECK(controls[0].message.kind == ControlKind::kGoodbye);
          CHECK(controls[0].message.body == "done");
          CHECK(world.recorder(peer).losses().empty());
        }
      }
    }
  }
}

TEST_CASE("a peer that connects after a rank has failed gets the reason, and then the loss") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.endpoint(0).LeaveBehind({ControlKind::kAbort, BodyOf(5)});
    world.Leave(0);
    world.lane(1, 0);
    world.Until("it is lost", [&] { return world.recorder(1).Lost(0); });
    const auto controls = world.recorder(1).controls();
    REQUIRE(controls.size() == 1);
    CHECK(controls[0].message.kind == ControlKind::kAbort);
    CHECK(controls[0].message.body == BodyOf(5));
  }
}

TEST_CASE("leaving without a goodbye is a loss") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    world.Leave(0);
    world.Until("the loss is reported", [&] { return world.recorder(1).Lost(0); });
    world.Settle();
    CHECK(world.recorder(1).losses().size() == 1);
    CHECK_FALSE(world.endpoint(1).SendControl(0, {ControlKind::kHeartbeat, ""}));
  }
}

}  // namespace control_test
}  // namespace rondo::conformance
