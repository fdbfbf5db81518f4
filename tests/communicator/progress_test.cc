// Which thread advances pending operations, and how a thread waits, on a clock that the test moves. Real threads are
// used only if two threads must interact.
#include "collectives/communicator/progress.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace rondo {
namespace progress_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kAdvanceTakes = microseconds(10);

// Operations that end when the test says so. Each Advance takes the time kAdvanceTakes on the test's clock.
class Source final : public ProgressSource {
 public:
  explicit Source(ManualClock& clock) : clock_(clock) {}

  Advanced Advance() override {
    clock_.Advance(kAdvanceTakes);
    ++advances;
    if (on_advance) on_advance();
    return {.issued = issued_seen, .moved = moves, .awaited = awaited};
  }
  bool Glance() override {
    ++glances;
    return false;
  }
  bool CheckWhileBlocked(TimePoint, Sequence waited) override {
    blocked_on = waited;
    return false;
  }
  void CheckWhileMoving(TimePoint, Sequence) override { ++checks_while_moving; }
  void OnPause(TimePoint begin, TimePoint end) override { pauses.push_back(end - begin); }
  BeforeSleep PrepareToSleep() override { return before_sleep ? before_sleep() : BeforeSleep::kSleep; }
  bool Arm() override {
    ++arms;
    return finds_while_arming;
  }
  void Disarm() override { ++disarms; }
  TimePoint WakeTime(TimePoint now) override { return now + milliseconds(100); }

  void Sleep(int, TimePoint until) override {
    ++sleeps;
    slept_from = clock_.Now();
    slept_until = until;
    if (on_sleep) on_sleep();
    clock_.AdvanceTo(until);
  }
  bool HasWorkSince(Sequence issued) const override { return issued != issued_now.load(); }
  Sequence issued() const override { return issued_now.load(); }
  bool HasEnded(Sequence last) const override { return ended.load() >= last; }
  bool HasWork() const override { return ended.load() < issued_now.load(); }
  void RunCallbacks() override {
    if (on_callbacks) on_callbacks();
  }

  std::function<void()> on_advance, on_sleep, on_callbacks;
  std::function<BeforeSleep()> before_sleep;
  AwaitedRanks awaited = AwaitedRanks::kUnknown;
  bool moves = false, finds_while_arming = false;
  std::atomic<int> advances{0};
  int glances = 0, checks_while_moving = 0, arms = 0, disarms = 0, sleeps = 0;
  Sequence issued_seen = 0, blocked_on = 0;
  std::atomic<Sequence> issued_now{0}, ended{0};
  std::vector<Duration> pauses;
  TimePoint slept_from{}, slept_until{};

 private:
  ManualClock& clock_;
};

class YieldingWaiter final : public Waiter {
 public:
  explicit YieldingWaiter(ManualClock& clock) : clock_(clock) {}
  void Sleep(Endpoint&, int, TimePoint) override {}
  void Yield() override {
    ++yields;
    clock_.Advance(yield_takes);
  }
  bool SeesPauses() const override { return sees_pauses; }

  int yields = 0;
  Duration yield_takes{};
  bool sees_pauses = true;

 private:
  ManualClock& clock_;
};

struct World {
  explicit World(const ProgressOptions& options)
      : source(clock), waiter(clock), progress(options, source, callbacks, clock, waiter) {}

  // Waits for the duration `until` for something that never happens.
  bool WaitForNothing(Duration until, Sequence waited = 0) {
    return progress.AdvanceUntil(clock.Now() + until, waited, [] { return false; });
  }

  ManualClock clock;
  Source source;
  YieldingWaiter waiter;
  Callbacks callbacks;
  ProgressLoop progress;
};

const ProgressOptions kSpinsAndYields{
    .policy = {.spin = microseconds(400), .yield = microseconds(1000)}, .shared_core_policy = {}, .has_thread = false};

TEST_CASE("a thread that waits polls, then yields, then sleeps, and looks again after each sleep") {
  World world(kSpinsAndYields);
  int advances_awake = 0;
  world.source.on_sleep = [&] {
    if (world.source.sleeps == 1) advances_awake = world.source.advances;
  };
  CHECK_FALSE(world.WaitForNothing(milliseconds(250), 7));
  CHECK(advances_awake > 1400 / 10);
  CHECK(advances_awake < 1400 / 10 + 5);
  CHECK(world.waiter.yields > 1000 / 10 - 5);  // one yield in each poll of the yielding phase
  // and one yield in every eight polls of the spinning phase
  CHECK(world.waiter.yields < 1000 / 10 + 400 / 10 / 8 + 5);
  CHECK(world.source.sleeps == 3);                     // each sleep lasts at most 100 ms
  CHECK(world.source.advances == advances_awake + 3);  // one poll after each sleep
  CHECK(world.source.arms == world.source.disarms);
  CHECK(world.source.blocked_on == 7);
  CHECK_FALSE(world.progress.lock().IsHeld());
}

TEST_CASE("a sleep ends with the wait at the latest") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = false});
  const TimePoint until = world.clock.Now() + milliseconds(30);
  CHECK_FALSE(world.WaitForNothing(milliseconds(30)));
  CHECK(world.source.slept_until == until);
  CHECK(world.waiter.yields == 0);
}

TEST_CASE("a wait ends when its condition holds, without another look") {
  World world(kSpinsAndYields);
  world.source.on_advance = [&] { world.source.ended = world.source.advances == 3 ? 1 : 0; };
  CHECK(world.progress.AdvanceUntil(TimePoint::max(), 1, [&] { return world.source.ended == 1; }));
  CHECK(world.source.advances == 3);
  CHECK(world.progress.AdvanceUntil(TimePoint::max(), 1, [&] { return world.source.ended == 1; }));
  CHECK(world.source.advances == 3);
}

TEST_CASE("bytes that move end the idleness, and leave time for deadlines") {
  World world(kSpinsAndYields);
  world.source.moves = true;
  CHECK_FALSE(world.WaitForNothing(milliseconds(10)));
  CHECK(world.source.sleeps == 0);
  CHECK(world.waiter.yields == 0);
  CHECK(world.source.checks_while_moving > 0);
}

TEST_CASE("a rank that waits for one on its own core gives the core away at once; otherwise it polls for a moment") {
  World here(kSpinsAndYields);
  here.source.awaited = AwaitedRanks::kOnThisCore;
  CHECK_FALSE(here.WaitForNothing(microseconds(400)));
  CHECK(here.waiter.yields >= 400 / 10 - 2);

  World elsewhere({.policy = WaitPolicy::YieldsAtOnce(), .shared_core_policy = {}, .has_thread = false});
  elsewhere.source.awaited = AwaitedRanks::kOnOtherCores;
  CHECK_FALSE(elsewhere.WaitForNothing(microseconds(20)));
  CHECK(elsewhere.waiter.yields == 0);
  CHECK_FALSE(elsewhere.WaitForNothing(microseconds(400)));
  CHECK(elsewhere.waiter.yields > 30);
}

TEST_CASE("where others want the core, the policy for shared cores takes over") {
  World world(kSpinsAndYields);
  world.waiter.yield_takes = microseconds(20);
  const TimePoint began = world.clock.Now();
  CHECK_FALSE(world.WaitForNothing(milliseconds(50)));
  CHECK_FALSE(world.progress.spins());
  CHECK(world.source.sleeps == 1);
  CHECK(world.source.slept_from - began < milliseconds(1));
}

TEST_CASE("a sleeper looks once more while it arms, and does not sleep on work that it has not seen") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = false});
  world.source.finds_while_arming = true;
  CHECK_FALSE(world.WaitForNothing(milliseconds(1)));
  CHECK(world.source.sleeps == 0);
  CHECK(world.source.arms == world.source.disarms);

  world.source.finds_while_arming = false;
  world.source.issued_now = 1;  // issued after the last Advance
  world.source.on_advance = [&] { world.source.issued_seen = world.source.advances > 200 ? 1 : 0; };
  CHECK_FALSE(world.WaitForNothing(milliseconds(110)));
  CHECK(world.source.advances > 200);
  CHECK(world.source.sleeps == 2);
}

TEST_CASE("nothing sleeps while what moves would not wake it") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = false});
  world.source.before_sleep = [] { return ProgressSource::BeforeSleep::kYield; };
  CHECK_FALSE(world.WaitForNothing(milliseconds(1)));
  CHECK(world.source.arms == 0);
  CHECK(world.waiter.yields > 50);
}

TEST_CASE("a process that did not run for longer than a pause says so, where its waiter can tell") {
  for (const bool sees : {true, false}) {
    CAPTURE(sees);
    World world(kSpinsAndYields);
    world.waiter.sees_pauses = sees;
    world.source.on_advance = [&] {
      if (world.source.advances == 5) world.clock.Advance(seconds(3));
    };
    CHECK_FALSE(world.WaitForNothing(seconds(4)));
    CHECK(world.source.pauses.size() == (sees ? 1 : 0));
    if (sees) CHECK(world.source.pauses.front() == seconds(3) + kAdvanceTakes);
  }
}

TEST_CASE("a pause counts wherever in a wait it falls, and postpones the end of the wait") {
  constexpr Duration kStopped = seconds(3);
  for (const int poll : {1, 2, 63, 64, 65, 150}) {
    for (const bool moves : {false, true}) {
      CAPTURE(poll);
      CAPTURE(moves);
      World world(kSpinsAndYields);
      world.source.moves = moves;
      world.source.on_advance = [&] {
        if (world.source.advances == poll) world.clock.Advance(kStopped);
      };
      TimePoint until = world.clock.Now() + seconds(4);
      const TimePoint began = world.clock.Now();
      CHECK_FALSE(world.progress.AdvanceUntil(until, 0, [] { return false; }));
      REQUIRE(world.source.pauses.size() == 1);
      CHECK(world.source.pauses.front() >= kStopped);
      CHECK(until >= began + seconds(7));
      CHECK(world.clock.Now() >= until);
      CHECK(world.clock.Now() < began + seconds(7) + milliseconds(250));
    }
  }
}

TEST_CASE("a pause in the poll that ends a wait counts for the operations that are left") {
  for (const bool left : {false, true}) {
    CAPTURE(left);
    World world(kSpinsAndYields);
    world.source.issued_now = left ? 2 : 1;
    world.source.on_advance = [&] {
      world.clock.Advance(seconds(3));
      world.source.ended = 1;
    };
    CHECK(world.progress.AdvanceUntil(TimePoint::max(), 1, [&] { return world.source.ended == 1; }));
    CHECK(world.source.pauses.size() == (left ? 1 : 0));
  }
}

TEST_CASE("a pause between the issue of an operation and the wait for it counts, unless the caller may have computed") {
  for (const bool has_thread : {false, true}) {
    for (const bool ends : {false, true}) {
      CAPTURE(has_thread);
      CAPTURE(ends);
      ProgressOptions options = kSpinsAndYields;
      options.has_thread = has_thread;  // the thread itself is made by CallThread only
      World world(options);
      world.clock.Advance(seconds(3));
      TimePoint until = ends ? world.clock.Now() + seconds(2) : TimePoint::max();
      const TimePoint given = until;
      CHECK(world.progress.AdvanceUntil(until, 1, [&] { return world.source.advances == 5; }));
      CHECK(world.source.pauses.size() == (ends && !has_thread ? 0 : 1));
      CHECK(until == given);  // the pause was before this wait, so it did not change `until`
    }
  }
}

TEST_CASE("time is no pause if the process was seen running") {
  World world(kSpinsAndYields);
  for (int i = 0; i < 5; ++i) {
    world.clock.Advance(milliseconds(700));
    world.progress.OnSeenRunning(world.clock.Now());
  }
  CHECK(world.progress.AdvanceUntil(TimePoint::max(), 1, [&] { return world.source.advances == 5; }));
  CHECK(world.source.pauses.empty());
}

TEST_CASE("functions that wait for an operation run as soon as it has ended, with the progress lock free") {
  World world(kSpinsAndYields);
  bool ran = false;
  world.callbacks.Add({.sequence = 1, .message = nullptr, .done = [&](const Status& status) {
                         ran = true;
                         CHECK(status);
                         CHECK_FALSE(world.progress.lock().IsHeld());
                         CHECK_FALSE(world.WaitForNothing(microseconds(100)));  // a callback may wait
                       }});
  world.source.on_callbacks = [&] {
    world.callbacks.Run([&](const auto& one) { return world.source.ended >= one.sequence; },
                        [](const auto&) { return Status(); });
  };
  world.source.on_advance = [&] {
    if (world.source.advances != 3) return;
    world.source.ended = 1;
    world.callbacks.OnEnded();
  };
  CHECK_FALSE(world.WaitForNothing(milliseconds(1)));
  CHECK(ran);
  CHECK(world.callbacks.empty());
}

TEST_CASE("one thread at a time advances; another one parks, and is notified when its operation has ended") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = false});
  world.progress.Enter();
  std::atomic<bool> asked{false}, ended{false};
  std::thread other([&] {
    CHECK(world.progress.AdvanceUntil(TimePoint::max(), 1, [&] {
      asked = true;
      return ended.load();
    }));
  });
  while (!asked) std::this_thread::yield();
  ended = true;
  world.progress.Leave();
  other.join();
  CHECK(world.source.advances <= 1);
}

TEST_CASE("the progress thread advances what no thread waits for, and ends at once when it is stopped") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = true});
  CHECK_FALSE(world.progress.has_thread());
  world.source.on_advance = [&] {
    if (world.source.advances % 3 == 0) world.source.ended = world.source.issued_now.load();
  };
  for (Sequence operation = 1; operation <= 3; ++operation) {
    world.source.issued_now = operation;
    REQUIRE(world.progress.CallThread());
    while (world.source.ended.load() < operation) std::this_thread::yield();
  }
  CHECK(world.progress.has_thread());
  world.progress.StopThread();
  CHECK_FALSE(world.progress.has_thread());
}

TEST_CASE("without a progress thread nothing is advanced but by threads that wait") {
  World world({.policy = {}, .shared_core_policy = {}, .has_thread = false});
  world.source.issued_now = 1;
  REQUIRE(world.progress.CallThread());
  CHECK_FALSE(world.progress.has_thread());
}

}  // namespace progress_test
}  // namespace rondo
