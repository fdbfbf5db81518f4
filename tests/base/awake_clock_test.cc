// Tests the clock that does not count the time during which its process was stopped.
#include "base/awake_clock.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>

namespace rondo {
namespace awake_clock_test {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("time passes as on the machine's clock while the ticks come") {
  const auto machine = std::make_shared<ManualClock>();
  AwakeClock clock(machine);
  const TimePoint begin = clock.Now();
  for (int tick = 0; tick < 100; ++tick) {
    clock.Tick();
    machine->Advance(milliseconds(300));  // at most kGap
  }
  CHECK(clock.Now() - begin == seconds(30));
}

TEST_CASE("of a gap between two ticks no more than kGap passes, whichever clock is read first after it") {
  for (const bool tick_first : {true, false}) {
    const auto machine = std::make_shared<ManualClock>();
    AwakeClock clock(machine);
    const TimePoint begin = clock.Now();
    clock.Tick();
    machine->Advance(std::chrono::hours(1));
    if (tick_first) clock.Tick();
    CHECK(clock.Now() - begin == AwakeClock::kGap);
    clock.Tick();
    machine->Advance(milliseconds(100));
    CHECK(clock.Now() - begin == AwakeClock::kGap + milliseconds(100));
  }
}

TEST_CASE("before the first tick and behind the last one it goes like the machine's, and never back") {
  const auto machine = std::make_shared<ManualClock>();
  AwakeClock clock(machine);
  const TimePoint begin = clock.Now();
  machine->Advance(seconds(100));
  CHECK(clock.Now() - begin == seconds(100));
  clock.Tick();
  machine->Advance(seconds(100));
  clock.EndTicks();
  CHECK(clock.Now() - begin == seconds(100) + AwakeClock::kGap);
  machine->Advance(seconds(100));
  CHECK(clock.Now() - begin == seconds(200) + AwakeClock::kGap);
}

TEST_CASE("a ticker ticks until it ends") {
  const auto clock = std::make_shared<AwakeClock>(std::make_shared<SteadyClock>());
  const TimePoint begin = clock->Now();
  { const AwakeClockTicker ticker(clock); }
  CHECK(clock->Now() >= begin);
}

}  // namespace awake_clock_test
}  // namespace rondo
