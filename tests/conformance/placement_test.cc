// Zero-copy sources and receive windows: how a lane accesses its user's memory, and when it must stop.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/conformance/traffic.h"
#include "tests/conformance/world.h"
#include "tests/support/pattern.h"

namespace rondo::conformance {
namespace placement_test {

TEST_CASE("windows granted piecewise, with gaps, before and after the bytes were written, all give the same bytes") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    if (!world.capabilities().push) continue;
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    // One destination in three windows: 10..100 and 100..300 are adjacent, 350..400 is separate.
    std::vector<std::byte> source(500);
    FillPattern(4, 0, source);
    Transport* const registers = world.network().transport(1).get();
    WindowMemory whole(290, 3, registers);
    WindowMemory late(50, 1, registers);
    std::vector<std::pair<std::uint64_t, MutableBytes>> grants{
        {10, whole.bytes().first(90)}, {100, whole.bytes().subspan(90)}, {350, late.bytes()}};
    std::vector<bool> granted;
    granted.push_back(b->Expect(grants[0].first, grants[0].second));
    std::size_t sent = 0;
    world.Until("the first part is sent", [&] {
      sent += Put(*a, Bytes(source).subspan(sent, 150 - sent));
      return sent == 150;
    });
    granted.push_back(b->Expect(grants[1].first, grants[1].second));
    granted.push_back(b->Expect(grants[2].first, grants[2].second));

    // The same calls read the bytes of a granted window and of a refused one.
    std::vector<std::byte> got(500);
    const auto destination = [&](std::uint64_t at) -> MutableBytes {
      for (auto& [begin, memory] : grants)
        if (at >= begin && at < begin + memory.size()) return memory.subspan(at - begin);
      const std::uint64_t until = at < 10 ? 10 : at < 350 ? 350 : 500;
      return MutableBytes(got).subspan(at, until - at);
    };
    world.Until("everything is read", [&] {
      sent += Put(*a, Bytes(source).subspan(sent));
      if (b->consumed() < 500) b->ReadInto(destination(b->consumed()));
      return b->consumed() == 500;
    });
    std::copy_n(whole.bytes().data(), 290, got.data() + 10);
    std::copy_n(late.bytes().data(), 50, got.data() + 350);
    CHECK_FALSE(PatternMismatch(4, 0, got));
    CHECK(whole.GuardsIntact());
    CHECK(late.GuardsIntact());
  }
}

TEST_CASE("a source is not released before it was accepted, and is released when it has been read") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    std::vector<std::byte> source(3000);
    FillPattern(8, 0, source);
    std::vector<std::byte> destination(source.size());
    world.Until("everything is written and read", [&] {
      Put(*a, Bytes(source).subspan(a->accepted()));
      REQUIRE(a->released() <= a->accepted());
      b->ReadInto(MutableBytes(destination).subspan(b->consumed()));
      return b->consumed() == source.size();
    });
    world.Until("it is released", [&] { return a->released() == source.size(); });
    CHECK_FALSE(PatternMismatch(8, 0, destination));
  }
}

TEST_CASE("after a sender has revoked, its memory is its own and its peer sees a true prefix, then the end") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    auto source = std::make_unique<std::vector<std::byte>>(2000);
    FillPattern(6, 0, *source);
    std::size_t sent = 0;
    for (int i = 0; i < 100; ++i) {
      sent += Put(*a, Bytes(*source).subspan(sent));
      world.Poll();
    }
    b->Peek(100);  // the view that Peek returns must not be used after the revocation either
    a->Revoke();
    CHECK(a->state() == LaneState::kFailed);
    REQUIRE(a->failure() != nullptr);
    CHECK(Put(*a, "more") == 0);
    std::fill(source->begin(), source->end(), std::byte{0xDD});
    source.reset();  // a sanitizer reports any later access

    std::vector<std::byte> got(2000);
    world.Until("the peer knows", [&] {
      b->ReadInto(MutableBytes(got).subspan(b->consumed()));
      return b->state() == LaneState::kFailed || b->state() == LaneState::kEnded;
    });
    CHECK(b->consumed() <= sent);
    CHECK_FALSE(PatternMismatch(6, 0, Bytes(got).first(b->consumed())));
  }
}

TEST_CASE("after a receiver has revoked, no peer writes into its windows") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    Lane* a = &world.lane(0, 1);
    Lane* b = &world.lane(1, 0);
    auto window = std::make_unique<WindowMemory>(1000, 0, world.network().transport(1).get());
    b->Expect(0, window->bytes());
    std::vector<std::byte> source(1000);
    FillPattern(6, 0, source);
    for (int i = 0; i < 20; ++i) world.Poll();  // the peer may receive the window's announcement later
    Put(*a, Bytes(source).first(500));
    world.Poll();
    b->Revoke();
    CHECK(b->state() == LaneState::kFailed);
    const std::vector<std::byte> before(window->bytes().begin(), window->bytes().end());
    for (int i = 0; i < 50; ++i) {
      Put(*a, Bytes(source).subspan(500));
      world.Poll();
    }
    CHECK(std::equal(before.begin(), before.end(), window->bytes().begin()));
    CHECK(window->GuardsIntact());
    window.reset();
    Put(*a, Bytes(source));
    world.Settle();
    CHECK(b->ReadInto(source) == 0);
  }
}

TEST_CASE("revoking while the peer is at it in another thread is safe at any instant") {
  for (const Fixture& fixture : Fixtures()) {
    if (!fixture.threads) continue;
    CAPTURE(fixture.name);
    for (int round = 0; round < 20; ++round) {
      World world = World::Everybody(fixture, 2);
      world.Connect(0, 1);
      Lane* a = &world.lane(0, 1);
      Lane* b = &world.lane(1, 0);
      const bool sender_revokes = round % 2 == 0;
      const int steps_before = round * 5;
      std::atomic<bool> stop{false};
      std::thread sender([&] {
        auto source = std::make_unique<std::vector<std::byte>>(3000, std::byte{0x11});
        for (int step = 0; sender_revokes ? step < steps_before : !stop; ++step) {
          world.endpoint(0).Poll(world.network().Now());
          Put(*a, Bytes(*source));
        }
        a->Revoke();
        std::fill(source->begin(), source->end(), std::byte{0xDD});
        source.reset();
        if (sender_revokes) stop = true;
      });
      std::thread receiver([&] {
        std::uint64_t wrong = 0;
        auto window = std::make_unique<WindowMemory>(100'000, 0, world.network().transport(1).get());
        std::uint64_t granted = 0;
        for (int step = 0; sender_revokes ? !stop : step < steps_before; ++step) {
          world.endpoint(1).Poll(world.network().Now());
          if (granted == b->consumed() && granted + 700 <= window->bytes().size())
            if (b->Expect(granted, window->bytes().subspan(granted, 700))) granted += 700;
          std::vector<std::byte> elsewhere(700);
          const bool in_window = b->consumed() < granted;
          const MutableBytes destination =
              in_window ? window->bytes().subspan(b->consumed(), granted - b->consumed()) : elsewhere;
          const std::size_t got = b->ReadInto(destination);
          granted = std::max(granted, b->consumed());
          for (std::byte byte : destination.first(got)) wrong += byte != std::byte{0x11};
        }
        b->Revoke();
        window.reset();
        if (!sender_revokes) stop = true;
        CHECK(wrong == 0);
      });
      sender.join();
      receiver.join();
    }
  }
}

}  // namespace placement_test
}  // namespace rondo::conformance
