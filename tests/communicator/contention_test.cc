// Whether others want the core, from how long it takes to give it away.
#include "collectives/contention.h"

#include <doctest/doctest.h>

namespace rondo {
namespace {

constexpr Duration kShort = std::chrono::nanoseconds(300), kLong = std::chrono::microseconds(2);

TEST_CASE("a core that comes back at once is nobody else's, whatever an interrupt takes now and then") {
  Contention contention;
  for (int i = 0; i < 10'000; ++i) {
    contention.Yielded(i % 100 == 0 ? kLong : kShort);
    CHECK_FALSE(contention.is_wanted());
  }
}

TEST_CASE("four long yields tell that others want the core") {
  Contention contention;
  for (int i = 0; i < 3; ++i) contention.Yielded(kLong);
  CHECK_FALSE(contention.is_wanted());
  contention.Yielded(kLong);
  CHECK(contention.is_wanted());
}

TEST_CASE("one long yield in ten is enough to go on believing it") {
  Contention contention;
  for (int i = 0; i < 1000; ++i) contention.Yielded(i % 10 == 0 ? kLong : kShort);
  CHECK(contention.is_wanted());
}

TEST_CASE("it is forgotten within a thousand short yields, however long it was so") {
  Contention contention;
  for (int i = 0; i < 10'000; ++i) contention.Yielded(kLong);
  int until_forgotten = 0;
  for (; contention.is_wanted(); ++until_forgotten) contention.Yielded(kShort);
  CHECK(until_forgotten <= 1000);
}

}  // namespace
}  // namespace rondo
