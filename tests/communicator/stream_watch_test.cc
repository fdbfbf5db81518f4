// Who ends operations that streams wait for, where nobody else can: what it finds late, what it lets be.
#include "collectives/stream_watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace rondo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLookEvery = milliseconds(1);

struct Watched : WatchedStreams {
  std::atomic<Sequence> done{0};
  std::atomic<bool> moves{false}, driven{true}, fails_late{true}, failed{false}, ended{false}, let_go{false};
  mutable std::atomic<std::uint64_t> count{0};
  std::atomic<int> held_up{0}, late{0};
  std::atomic<Sequence> last_late{0};
  std::atomic<bool> last_was_held_up{false};

  Sequence completed() const override { return done; }
  std::uint64_t looks() const override {
    const std::uint64_t now = ++count;  // once at every look of the watch
    return moves ? now : 0;
  }
  bool is_driven() const override { return driven; }
  bool has_failed() const override { return failed; }
  bool has_ended() const override { return ended; }
  void OnHeldUp(Sequence, Duration) override { ++held_up; }
  void OnLate(Sequence operation, bool is_held_up) override {
    last_late = operation;
    last_was_held_up = is_held_up;
    ++late;
    if (fails_late) failed = true;
  }
  void LetStreamsGo() override { let_go = true; }

  // The next looks have been taken.
  void LookSome() const {
    for (const std::uint64_t until = count + 30; count < until;) std::this_thread::sleep_for(kLookEvery);
  }
  void AwaitNoLooks() const {
    for (std::uint64_t last = 0; last != count;) {
      last = count;
      std::this_thread::sleep_for(50 * kLookEvery);
    }
  }
};

void Await(const std::atomic<bool>& it) {
  while (!it) std::this_thread::sleep_for(kLookEvery);
}

TEST_CASE("An operation that nobody drives fails a second after its deadline, and then the streams are let go") {
  ManualClock clock;
  Watched watched;
  watched.driven = false;
  StreamWatch watch(watched, clock, 4, kLookEvery);
  watch.Issued(1, clock.Now() + seconds(5), true);
  clock.Advance(seconds(5) + milliseconds(999));
  watched.LookSome();
  CHECK(watched.late == 0);
  clock.Advance(milliseconds(1));
  Await(watched.let_go);
  CHECK(watched.late == 1);
  CHECK(watched.last_late == 1);
  CHECK(!watched.last_was_held_up);
  CHECK(watched.held_up == 0);
}

TEST_CASE("One whose owner does not come back is said to be held up once, and fails at its deadline") {
  ManualClock clock;
  Watched watched;
  StreamWatch watch(watched, clock, 4, kLookEvery);
  watch.Issued(1, clock.Now() + seconds(5), true);
  watched.LookSome();
  CHECK(watched.held_up == 1);
  CHECK(watched.late == 0);
  clock.Advance(seconds(5));
  Await(watched.let_go);
  CHECK(watched.last_was_held_up);
}

TEST_CASE("One that is looked after is let be, however late; so is who drives an operation of the host") {
  ManualClock clock;
  Watched watched;
  watched.moves = true;
  StreamWatch watch(watched, clock, 4, kLookEvery);
  watch.Issued(1, clock.Now(), true);
  clock.Advance(seconds(10));
  watched.LookSome();
  CHECK(watched.late == 0);
  watched.moves = false;
  watch.Issued(2, clock.Now() + seconds(5), false);
  watched.done = 1;
  watched.LookSome();
  CHECK(watched.held_up == 0);
  clock.Advance(seconds(6));
  Await(watched.let_go);
  CHECK(watched.last_late == 2);
}

TEST_CASE(
    "Streams are left to an owner who ends everything after a failure, and let go in the stead of one who does not") {
  for (const bool ends : {true, false}) {
    ManualClock clock;
    Watched watched;
    watched.ended = ends;
    {
      StreamWatch watch(watched, clock, 4, kLookEvery);
      watch.Issued(1, clock.Now() + seconds(5), true);
      watched.failed = true;
      if (!ends) Await(watched.let_go);
      std::this_thread::sleep_for(10 * kLookEvery);
    }
    CHECK(watched.let_go == !ends);
    CHECK(watched.late == 0);
  }
}

TEST_CASE("It sleeps while nothing is under way, and wakes for what is issued then") {
  ManualClock clock;
  Watched watched;
  StreamWatch watch(watched, clock, 4, kLookEvery);
  watch.Issued(1, clock.Now() + seconds(5), true);
  for (Sequence next = 2; next < 12; ++next) {  // more than there is room for at once
    watched.done = next - 1;
    watched.AwaitNoLooks();
    watch.Issued(next, clock.Now() + seconds(5), true);
    watched.LookSome();
    CHECK(watched.late == 0);
  }
  clock.Advance(seconds(6));
  Await(watched.let_go);
  CHECK(watched.last_late == 11);
}

}  // namespace
}  // namespace rondo
