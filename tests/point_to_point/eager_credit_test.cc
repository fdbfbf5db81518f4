// The credit for eager messages: it bounds the bytes in flight, and returns in time for the next message.
#include "collectives/point_to_point/eager_credit.h"

#include <doctest/doctest.h>

namespace rondo {
namespace eager_credit_test {

constexpr std::uint64_t kLimit = 1024;
constexpr std::uint64_t kSmall = 2 * kLineBytes;  // the credit for a header and a payload of at most kLineBytes bytes

TEST_CASE("credit is spent and regained in places of the stream") {
  EagerCredit credit(kLimit);
  CHECK(credit.Allows(kLimit - kLineBytes));
  CHECK_FALSE(credit.Allows(kLimit - kLineBytes + 1));
  for (std::uint64_t i = 0; i < kLimit / kSmall; ++i) {
    REQUIRE(credit.Allows(1));
    credit.Spend(1);
  }
  CHECK(credit.spent() == kLimit);
  CHECK_FALSE(credit.Allows(0));  // a header alone needs credit, too
  CHECK(credit.Regain(kLineBytes));
  CHECK(credit.Allows(0));
  CHECK_FALSE(credit.Allows(1));
  CHECK(credit.Regain(kSmall));
  CHECK(credit.Allows(1));
}

TEST_CASE("a peer can return neither less than before nor more than was spent") {
  EagerCredit credit(kLimit);
  credit.Spend(1);
  credit.Spend(1);
  CHECK_FALSE(credit.Regain(2 * kSmall + 1));
  CHECK(credit.Regain(kSmall));
  CHECK(credit.Regain(kSmall));
  CHECK_FALSE(credit.Regain(kSmall - 1));
  CHECK(credit.regained() == kSmall);
  CHECK(credit.Regain(2 * kSmall));
}

TEST_CASE("a message beyond the credit is seen, until credit has been returned") {
  EagerCredit credit(kLimit);
  CHECK(credit.Take(kLimit - kSmall));
  CHECK(credit.Take(0));
  credit.Owe(0);
  CHECK_FALSE(EagerCredit(credit).Take(0));  // the credit is owed, but Return has not been called
  CHECK(credit.Return() == kLineBytes);
  CHECK(credit.Take(0));
  CHECK_FALSE(credit.Take(0));
}

TEST_CASE("credit goes back by itself once a quarter of it is owed") {
  EagerCredit credit(kLimit);
  CHECK_FALSE(credit.OwesMuch());
  credit.Owe(kLineBytes);
  CHECK_FALSE(credit.OwesMuch());
  credit.Owe(kLineBytes);
  CHECK(credit.OwesMuch());
  CHECK(credit.Return() == 2 * kSmall);
  CHECK_FALSE(credit.OwesMuch());
}

}  // namespace eager_credit_test
}  // namespace rondo
