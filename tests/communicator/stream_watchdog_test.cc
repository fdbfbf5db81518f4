// The watchdog over streams: which late operations it fails, and which operations it does not touch.
#include "collectives/device/stream_watchdog.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace rondo {
namespace stream_watchdog_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLookEvery = milliseconds(1);

struct Watched : WatchedStreams {
  std::atomic<Sequence> done{0};
  // What the functions below return. `looks_around`: the owner checks for progress. `driven`: a thread that is awake
  // holds the progress lock.
  std::atomic<bool> looks_around{false}, driven{true}, failed{false}, ending{false}, ended{false};
  std::atomic<int> blocked{0}, late{0}, released{0};
  std::atomic<Sequence> last_late{0};
  std::atomic<bool> last_was_blocked{false};
  mutable std::atomic<std::uint64_t> count{0};  // number of checks that the watchdog has made

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
  void OnDriverBlocked(Sequence, Duration) override { ++blocked; }
  void OnLate(Sequence operation, bool is_blocked) override {
    last_late = operation;
    last_was_blocked = is_blocked;
    ++late;
    failed = true;
  }
  void ReleaseStreams() override { ++released; }

  // Waits until the watchdog has made `looks` more checks, but at most a minute.
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
  StreamWatchdog watch{watched, clock, 4, kLookEvery};

  StreamWatchdog::Issue In(Duration time, bool on_device = true, bool stream_waits = true) const {
    return {.deadline = clock.Now() + time, .on_device = on_device, .stream_waits = stream_waits};
  }
  void AwaitRelease() const {
    Watched::Await([&] { return watched.released == 1; });
  }
};

TEST_CASE("An operation that no thread advances fails a second after its deadline, and then the streams are released") {
  Scene scene;
  scene.watched.driven = false;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.clock.Advance(seconds(5) + milliseconds(999));
  scene.watched.LookSome();
  CHECK(scene.watched.late == 0);
  scene.clock.Advance(milliseconds(1));
  scene.AwaitRelease();
  CHECK(scene.watched.late == 1);
  CHECK(scene.watched.last_late == 1);
  CHECK(!scene.watched.last_was_blocked);
  CHECK(scene.watched.blocked == 0);
}

TEST_CASE("An operation whose owner does not return is reported as blocked once, and fails at its deadline") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.LookSome();
  CHECK(scene.watched.blocked == 1);
  CHECK(scene.watched.late == 0);
  scene.clock.Advance(seconds(5));
  scene.AwaitRelease();
  CHECK(scene.watched.last_was_blocked);
}

TEST_CASE("An operation whose owner still looks for progress is left alone, however late") {
  Scene scene;
  scene.watched.looks_around = true;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.clock.Advance(seconds(10));
  scene.watched.LookSome();
  CHECK(scene.watched.blocked == 0);
  CHECK(scene.watched.late == 0);
}

TEST_CASE(
    "An owner that works on an operation of the host gets longer, and fails if streams wait for later operations") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5), /*on_device=*/false, /*stream_waits=*/false));
  scene.watch.Issued(2, scene.In(seconds(5)));
  scene.clock.Advance(seconds(10));
  const std::uint64_t before = scene.watched.count;
  scene.AwaitRelease();
  CHECK(scene.watched.count - before >= StreamWatchdog::kLooksAtWork);
  CHECK(scene.watched.blocked == 0);
  CHECK(scene.watched.late == 1);
}

TEST_CASE("What no stream waits for is not watched") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.done = 1;
  scene.watch.Issued(2, scene.In(seconds(5), /*on_device=*/true, /*stream_waits=*/false));
  scene.clock.Advance(seconds(10));
  scene.watched.AwaitSleep();
  CHECK(scene.watched.blocked == 0);
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
  scene.AwaitRelease();
  CHECK(scene.watched.last_late == 2);
}

TEST_CASE(
    "After a failure the watchdog leaves an owner that has ended everything alone, and gives an ending one more time") {
  for (const bool ending : {false, true}) {
    Scene scene;
    scene.watched.ending = ending;
    scene.watch.Issued(1, scene.In(seconds(5)));
    scene.watched.LookSome(2);
    const std::uint64_t before = scene.watched.count;
    scene.watched.failed = true;
    scene.AwaitRelease();
    CHECK((scene.watched.count - before >= StreamWatchdog::kLooksWhileEnding) == ending);
    CHECK(scene.watched.late == 0);
  }
  Scene scene;
  scene.watched.ended = true;
  scene.watch.Issued(1, scene.In(seconds(5)));
  scene.watched.failed = true;
  scene.watched.AwaitSleep();
  CHECK(scene.watched.released == 0);
}

TEST_CASE("It sleeps while no stream waits, and wakes for one that does") {
  Scene scene;
  scene.watch.Issued(1, scene.In(seconds(5)));
  for (Sequence next = 2; next < 8; ++next) {  // more operations than the watchdog has entries
    scene.watched.done = next - 1;
    scene.watched.AwaitSleep();
    scene.watch.Issued(next, scene.In(seconds(5)));
    scene.watched.LookSome();
    CHECK(scene.watched.late == 0);
  }
  scene.clock.Advance(seconds(6));
  scene.AwaitRelease();
  CHECK(scene.watched.last_late == 7);
}

}  // namespace stream_watchdog_test
}  // namespace rondo
