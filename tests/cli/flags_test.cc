// Tests the parsing of flag values as users write them. tests/cli/run tests the messages of the whole program for wrong
// values.
#include "tools/common/flags.h"

#include <doctest/doctest.h>

#include <string>

#include "base/seconds.h"
#include "tools/common/sizes.h"

namespace rondo {
namespace flags_test {

TEST_CASE("Seconds are more than none, to the nanosecond, and at most a million") {
  CHECK(ParseSeconds("1.5") == std::chrono::milliseconds(1500));
  CHECK(ParseSeconds("1e-9") == std::chrono::nanoseconds(1));
  CHECK(ParseSeconds("1000000") == std::chrono::seconds(1'000'000));
  // A time below one nanosecond would become zero, so the deadline would pass before anything begins.
  for (const char* wrong : {"0", "-1", "1e-10", "1e-300", "nan", "inf", "1000001", "", "1s", " 1"}) {
    CAPTURE(wrong);
    REQUIRE(!ParseSeconds(wrong));
    CHECK(ParseSeconds(wrong).error().code() == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("Sizes are whole bytes that 64 bits hold") {
  CHECK(ParseSize("1.5M") == std::uint64_t{3} << 19);
  CHECK(ParseSize("18446744073709551615") == ~std::uint64_t{0});
  CHECK(ParseSize("16777215T") == std::uint64_t{16777215} << 40);
  for (const char* wrong :
       {"", ".", "1.5", "0.3K", "16777216T", "18446744073709551616", "8388608.0T", "4KiBB", "1e3", "-1"}) {
    CAPTURE(wrong);
    CHECK(!ParseSize(wrong));
  }
}

}  // namespace flags_test
}  // namespace rondo
