// The byte stream of a lane: order, content, offsets, and free room.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/conformance/traffic.h"
#include "tests/conformance/world.h"
#include "tests/support/pattern.h"

namespace rondo::conformance {
namespace stream_test {

TEST_CASE("bytes arrive once, in order and unchanged, in both directions, however they are written and read") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(seed);
      World world = World::Everybody(fixture, 2);
      world.Connect(0, 1);
      Lane* a = &world.lane(0, 1);
      Lane* b = &world.lane(1, 0);
      Random random(seed);
      const std::uint64_t total = fixture.traffic_bytes / 2 + random.Below(fixture.traffic_bytes / 2);
      Sender forth(*a, world.capabilities(), seed, total, random.Split());
      Sender back(*b, world.capabilities(), seed + 100, total, random.Split());
      Receiver there(*b, world.capabilities(), seed, total, random.Split(),
                     {.registers = world.network().transport(1).get()});
      Receiver here(*a, world.capabilities(), seed + 100, total, random.Split(),
                    {.registers = world.network().transport(0).get()});
      world.Until("everything has been read and released", [&] {
        // The two senders and the two receivers act in random order, not in turn.
        for (int i = 0; i < 16; ++i) switch (random.Below(4)) {
            case 0: forth.Step(); break;
            case 1: back.Step(); break;
            case 2: there.Step(); break;
            default: here.Step(); break;
          }
        return forth.Done() && back.Done() && there.Done() && here.Done();
      });
      CHECK(forth.GuardsIntact());
      CHECK(back.GuardsIntact());
      CHECK(a->Peek(1).size() == 0);
      CHECK(b->Peek(1).size() == 0);
    }
  }
}

TEST_CASE("large pieces of registered memory arrive like all others, and are free once they are released") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    const auto sender = [&](Lane& lane, Rank rank) {
      return std::make_unique<Sender>(
          lane, world.capabilities(), static_cast<std::uint64_t>(rank), fixture.traffic_bytes, Random(rank + 1),
          SenderOptions{.max_piece_bytes = 100'000, .registers = world.network().transport(rank).get()});
    };
    const auto forth = sender(*a, 0), back = sender(*b, 1);
    const auto receiver = [&](Lane& lane, Rank rank) {
      return Receiver(lane, world.capabilities(), static_cast<std::uint64_t>(1 - rank), fixture.traffic_bytes,
                      Random(rank + 3),
                      {.max_piece_bytes = 70'000, .registers = world.network().transport(rank).get()});
    };
    Receiver there = receiver(*b, 1), here = receiver(*a, 0);
    world.Until("everything has been read and released", [&] {
      // A sender stops only if its lane is full, so many bytes are in flight.
      for (Sender* one : {forth.get(), back.get()})
        for (int i = 0; i < 4; ++i) one->Step();
      there.Step();
      here.Step();
      return forth->Done() && back->Done() && there.Done() && here.Done();
    });
    CHECK(forth->GuardsIntact());
    CHECK(back->GuardsIntact());
  }
}

TEST_CASE("overwriting a source before it is released is seen as corruption where the lane reads it late") {
  for (const Fixture& fixture : Fixtures()) {
    if (!fixture.reads_source_late) continue;
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    Sender sender(*a, world.capabilities(), 1, 4000, Random(1), {.max_piece_bytes = 500, .overwrite_early = true});
    Receiver receiver(*b, world.capabilities(), 1, 4000, Random(2),
                      {.max_piece_bytes = 500, .windows = false, .tolerate_garbage = true});
    world.Until("everything has been read", [&] {
      sender.Step();
      receiver.Step();
      return receiver.Done();
    });
    CHECK(receiver.wrong_bytes() > 0);
  }
}

TEST_CASE("what Peek has shown stays in place and unchanged until it is consumed") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    std::vector<std::byte> source(std::min<std::uint64_t>(200, fixture.max_bytes_ahead));
    FillPattern(5, 0, source);
    std::size_t sent = 0;
    int rounds = 0;
    Arrived before;
    world.Until("all of it is shown at once or in two spans", [&] {
      // Peeks alternate between a small and a large maximum.
      sent += Put(*a, Bytes(source).subspan(sent, std::min<std::size_t>(20, source.size() - sent)));
      const Arrived now = b->Peek(rounds++ % 2 == 0 ? 1 : source.size());
      REQUIRE(now.size() >= before.size());
      if (!before.first.empty()) REQUIRE(now.first.data() == before.first.data());
      if (!before.second.empty()) REQUIRE(now.second.data() == before.second.data());
      REQUIRE_FALSE(PatternMismatch(5, 0, now.first));
      REQUIRE_FALSE(PatternMismatch(5, now.first.size(), now.second));
      before = now;
      return now.size() == source.size();
    });
    b->Consume(source.size());
    CHECK(b->consumed() == source.size());
  }
}

TEST_CASE("nothing of length zero does anything") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    CHECK(a->Write({}) == 0);
    const Bytes empties[] = {Bytes{}, Bytes{}};
    CHECK(a->Write(empties) == 0);
    CHECK(b->ReadInto({}) == 0);
    if (world.capabilities().push) b->Expect(0, {});
    b->Consume(0);
    CHECK(a->accepted() == 0);
    CHECK(a->released() == 0);
    CHECK(b->consumed() == 0);
    REQUIRE(Put(*a, "x") == 1);
    std::string got;
    world.Until("the byte is there", [&] { return !(got = Take(*b, 10)).empty(); });
    CHECK(got == "x");
  }
}

TEST_CASE("a writer far ahead is stopped, nothing is lost, and room comes back") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    // The memory never changes, so it does not matter when it is released.
    const std::uint64_t period = 64 * 1024;
    std::vector<std::byte> source(2 * period);
    for (std::uint64_t i = 0; i < source.size(); ++i) source[i] = PatternAt(3, i % period);
    const auto write = [&] { return Put(*a, Bytes(source).subspan(a->accepted() % period, period)); };

    for (int refusals = 0; refusals < 200;) {
      refusals = write() == 0 ? refusals + 1 : 0;
      REQUIRE(a->accepted() <= fixture.max_bytes_ahead);
      world.Poll();
    }
    const std::uint64_t ahead = a->accepted();
    CHECK(ahead > 0);

    std::uint64_t read = 0;
    std::vector<std::byte> destination(period);
    const auto drain = [&] {
      const std::size_t got = b->ReadInto(destination);
      for (std::size_t i = 0; i < got; ++i, ++read)
        if (destination[i] != source[read % period]) FAIL("wrong byte at stream offset ", read);
    };
    world.Until("what was accepted has been read", [&] {
      drain();
      return read == ahead;
    });
    world.Until("there is room again", [&] { return write() > 0; });
    world.Until("that arrives too", [&] {
      drain();
      return read == a->accepted();
    });
    world.Until("all is released", [&] { return a->released() == a->accepted(); });
  }
}

TEST_CASE("bytes written before the peer has opened wait for it") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world(fixture, 2);
    world.Join(0);
    Lane& a = world.lane(0, 1);
    std::vector<std::byte> source(100);
    FillPattern(9, 0, source);
    world.Until("the lane takes bytes or needs the peer for it", [&, rounds = 0]() mutable {
      if (a.accepted() < source.size()) Put(a, Bytes(source).subspan(a.accepted()));
      return a.accepted() == source.size() || ++rounds == 300;
    });
    world.Join(1);
    Lane& b = world.lane(1, 0);
    std::vector<std::byte> destination(source.size());
    world.Until("everything is there", [&] {
      if (a.accepted() < source.size()) Put(a, Bytes(source).subspan(a.accepted()));
      b.ReadInto(MutableBytes(destination).subspan(b.consumed()));
      return b.consumed() == source.size();
    });
    CHECK_FALSE(PatternMismatch(9, 0, destination));
  }
}

TEST_CASE("a connecting lane takes nothing, shows nothing, and opens in the end") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    Lane& a = world.lane(0, 1);
    Lane& b = world.lane(1, 0);
    world.Until("both are open", [&] {
      for (Lane* lane : {&a, &b}) {
        const bool connecting = lane->state() == LaneState::kConnecting;
        REQUIRE((connecting || lane->state() == LaneState::kOpen));
        CHECK(lane->failure() == nullptr);
        if (!connecting) continue;
        REQUIRE(Put(*lane, "too early") == 0);
        REQUIRE(lane->Peek(1).size() == 0);
        REQUIRE(lane->accepted() == 0);
      }
      return a.state() == LaneState::kOpen && b.state() == LaneState::kOpen;
    });
    CHECK(a.peer() == 1);
    CHECK(b.peer() == 0);
  }
}

}  // namespace stream_test
}  // namespace rondo::conformance
