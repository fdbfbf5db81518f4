// Tests that the duration of a yield shows whether other threads want the core.
#include "collectives/communicator/cpu_contention.h"

#include <doctest/doctest.h>

#include "collectives/communicator/waiter.h"

namespace rondo {
namespace cpu_contention_test {

constexpr Duration kShort = std::chrono::nanoseconds(300), kLong = std::chrono::microseconds(2);

TEST_CASE("a core that comes back at once is not shared, whatever an interrupt takes now and then") {
  CpuContentionDetector contention;
  for (int i = 0; i < 10'000; ++i) {
    contention.OnYield(i % 100 == 0 ? kLong : kShort);
    CHECK_FALSE(contention.is_wanted());
  }
}

TEST_CASE("four long yields tell that others want the core") {
  CpuContentionDetector contention;
  for (int i = 0; i < 3; ++i) contention.OnYield(kLong);
  CHECK_FALSE(contention.is_wanted());
  contention.OnYield(kLong);
  CHECK(contention.is_wanted());
}

TEST_CASE("one long yield in ten is enough to go on believing it") {
  CpuContentionDetector contention;
  for (int i = 0; i < 1000; ++i) contention.OnYield(i % 10 == 0 ? kLong : kShort);
  CHECK(contention.is_wanted());
}

TEST_CASE("on a machine whose system calls are slow a yield has to last longer to tell anything") {
  CpuContentionDetector contention(10 * kLong);
  for (int i = 0; i < 1000; ++i) contention.OnYield(9 * kLong);
  CHECK_FALSE(contention.is_wanted());
  for (int i = 0; i < 4; ++i) contention.OnYield(10 * kLong);
  CHECK(contention.is_wanted());
}

TEST_CASE("what a long yield is follows from what a system call takes, within bounds") {
  // Each read of this clock advances it by the time that a system call of the simulated machine takes.
  struct Slow final : Clock {
    explicit Slow(Duration step) : step(step) {}
    TimePoint Now() const override { return now += step; }
    const Duration step;
    mutable TimePoint now{};
  };
  const Slow fast(std::chrono::nanoseconds(100)), slow(std::chrono::microseconds(2)), stuck(std::chrono::seconds(1));
  CHECK(KernelWaiter(fast).LongYield() == std::chrono::microseconds(1));
  CHECK(KernelWaiter(slow).LongYield() == std::chrono::microseconds(10));
  CHECK(KernelWaiter(stuck).LongYield() == std::chrono::microseconds(50));
}

TEST_CASE("it is forgotten within a thousand short yields, however long it was so") {
  CpuContentionDetector contention;
  for (int i = 0; i < 10'000; ++i) contention.OnYield(kLong);
  int until_forgotten = 0;
  for (; contention.is_wanted(); ++until_forgotten) contention.OnYield(kShort);
  CHECK(until_forgotten <= 1000);
}

}  // namespace cpu_contention_test
}  // namespace rondo
