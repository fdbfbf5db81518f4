// The watchdog over streams: which late operations it fails, and which it leaves alone.
#include "collectives/device/stream_watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace rondo {
namespace stream_watch_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLookEvery = milliseconds(1);

struct Watched : WatchedStreams {
  std::atomic<Sequence> done{0};
  // Whether the owner still advances operations, and whether it holds the progress lock.
  std::atomic<bool> looks_around{false}, driven{true}, failed{false}, ending{false}, ended{false};
  std::atomic<int> held_up{0}, late{0}, let_go{0};
  std::atomic<Sequence> last_late{0};
  std::atomic<bool> last_was_held_up{false};
  mutable std::atomic<std::uint64_t> count{0};  // looks of the watchdog

  Sequence completed() const override { return done; }
  std::uint64_t looks() const override {
    const std::uint64_t now = ++count;
    return looks_around ? now : 0;
  }
  bool is_driven() const override { return driven; }
  bool has_failed() const override {
    if (failed) ++count;
    return failed;
  }
  bool is_ending() const override { return ending; }
  bool has_ended() const override { return ended; }
  void OnHeldUp(Sequence, Duration) override { ++held_up; }
  void OnLate(Sequence operation, bool is_held_up) override {
    last_late = operation;
    last_was_held_up = is_held_up;
    ++late;
    failed = true;
  }
  void LetStreamsGo() override { ++let_go; }

  // Waits until the watchdog has looked this many more times, for a minute at most.
  void LookSome(std::uint64_t looks = 30) const {
    Await([&, until = count + looks] { return count >= until; });
  }
  void AwaitSleep() const {
    for (std::uint64_t last = ~count; last != count;) {
      last = count;
      std::this_thread::sleep_for(300 * kLookEvery);
    }
  }
  template <typename Condition>
  static void Await(Condition holds) {
    for (int i = 0; i < 60'000 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(1));
    REQUIRE(holds());
  }
};

struct Scene {
  ManualClock clock;
  Watched watched;
  StreamWatch watch{watched, clock, 4, kLookEvery};

  StreamWatch::Issue In(Duration time, bool on_device = true, bool stream_waits = true) const {
    return {.deadline = clock.Now() + time, .on_device = on_device, .stream_waits = stream_waits};
  }
  void AwaitLettingGo() const {
    Watched::Await([&] { return watched.let_go == 1; });
  }
};

TEST_CASE("An operation that nobody drives fails a second after its deadline, and then the streams are let go") {
  Scene scene;
  scene.watched.driven = false;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.clock.Advance(seconds(5) + milliseconds(999));
  scene.watched.LookSome();
  CHECK(scene.watched.late == 0);
  scene.clock.Advance(milliseconds(1));
  scene.AwaitLettingGo();
  CHECK(scene.watched.late == 1);
  CHECK(scene.watched.last_late == 1);
  CHECK(!scene.watched.last_was_held_up);
  CHECK(scene.watched.held_up == 0);
}

TEST_CASE("One whose owner does not come back is said to be held up once, and fails at its deadline") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.LookSome();
  CHECK(scene.watched.held_up == 1);
  CHECK(scene.watched.late == 0);
  scene.clock.Advance(seconds(5));
  scene.AwaitLettingGo();
  CHECK(scene.watched.last_was_held_up);
}

TEST_CASE("One whose owner looks around is let be, however late") {
  Scene scene;
  scene.watched.looks_around = true;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.clock.Advance(seconds(10));
  scene.watched.LookSome();
  CHECK(scene.watched.held_up == 0);
  CHECK(scene.watched.late == 0);
}

TEST_CASE("Who works on an operation of the host is given longer, and fails as well where others wait for it") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5), /*on_device=*/false, /*stream_waits=*/false));
  scene.watch.Issued(2, scene.In(seconds(5)));
  scene.clock.Advance(seconds(10));
  const std::uint64_t before = scene.watched.count;
  scene.AwaitLettingGo();
  CHECK(scene.watched.count - before >= StreamWatch::kLooksAtWork);
  CHECK(scene.watched.held_up == 0);
  CHECK(scene.watched.late == 1);
}

TEST_CASE("What no stream waits for is not watched") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.done = 1;
  scene.watch.Issued(2, scene.In(seconds(5), /*on_device=*/true, /*stream_waits=*/false));
  scene.clock.Advance(seconds(10));
  scene.watched.AwaitSleep();
  CHECK(scene.watched.held_up == 0);
  CHECK(scene.watched.late == 0);
}

TEST_CASE("Of those that streams wait for, and those before them, the first deadline counts") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(50), /*on_device=*/true, /*stream_waits=*/false));
  scene.watch.Issued(2, scene.In(seconds(5)));
  scene.watch.Issued(3, scene.In(seconds(1), /*on_device=*/true, /*stream_waits=*/false));
  scene.clock.Advance(seconds(4));
  scene.watched.LookSome();
  CHECK(scene.watched.late == 0);
  scene.clock.Advance(seconds(2));
  scene.AwaitLettingGo();
  CHECK(scene.watched.last_late == 2);
}

TEST_CASE("After a failure an owner who ends everything is left to it, one who is about to is given more time") {
  for (const bool ending : {false, true}) {
    Scene scene;
    scene.watched.ending = ending;
    scene.watch.Issued(1, scene.In(seconds(5)));
    scene.watched.LookSome(2);
    const std::uint64_t before = scene.watched.count;
    scene.watched.failed = true;
    scene.AwaitLettingGo();
    CHECK((scene.watched.count - before >= StreamWatch::kLooksWhileEnding) == ending);
    CHECK(scene.watched.late == 0);
  }
  Scene scene;
  scene.watched.ended = true;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.failed = true;
  scene.watched.AwaitSleep();
  CHECK(scene.watched.let_go == 0);
}

TEST_CASE("It sleeps while no stream waits, and wakes for one that does") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  for (Sequence next = 2; next < 8; ++next) {  // more than there are entries for at once
    scene.watched.done = next - 1;
    scene.watched.AwaitSleep();
    scene.watch.Issued(next, scene.In(seconds(5)));
    scene.watched.LookSome();
    CHECK(scene.watched.late == 0);
  }
  scene.clock.Advance(seconds(6));
  scene.AwaitLettingGo();
  CHECK(scene.watched.last_late == 7);
}

}  // namespace stream_watch_test
}  // namespace rondo
