// Tests the conversions of 16-bit floats: all 65536 values of each type, and float32 values around every rounding
// boundary.
#include "base/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "base/random.h"

namespace rondo {
namespace half_test {

std::uint32_t BitsOf(float value) { return std::bit_cast<std::uint32_t>(value); }

// Computes the value that sign, exponent and fraction define, in double arithmetic.
double Value(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const double fraction = bits & ((1 << fraction_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                         : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

struct Float16 {
  static constexpr int kFractionBits = 10;
  static constexpr int kBias = 15;
  static constexpr std::uint16_t kNan = kNanFloat16;
  static constexpr std::uint16_t kInfinity = 0x7C00;
  static float From(std::uint16_t bits) { return FromFloat16(bits); }
  static std::uint16_t To(float value) { return ToFloat16(value); }
};

struct Bfloat16 {
  static constexpr int kFractionBits = 7;
  static constexpr int kBias = 127;
  static constexpr std::uint16_t kNan = kNanBfloat16;
  static constexpr std::uint16_t kInfinity = 0x7F80;
  static float From(std::uint16_t bits) { return FromBfloat16(bits); }
  static std::uint16_t To(float value) { return ToBfloat16(value); }
};

TEST_CASE_TEMPLATE("Every 16-bit pattern is the number that its format defines, and comes back as it was", Half,
                   Float16, Bfloat16) {
  for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const std::uint16_t magnitude = bits & 0x7FFF;
    CAPTURE(pattern);
    if (magnitude > Half::kInfinity) {
      REQUIRE(BitsOf(Half::From(bits)) == kNanFloat32);
      REQUIRE(Half::To(Half::From(bits)) == Half::kNan);
    } else if (magnitude == Half::kInfinity) {
      REQUIRE(std::isinf(Half::From(bits)));
      REQUIRE(std::signbit(Half::From(bits)) == (bits != magnitude));
      REQUIRE(Half::To(Half::From(bits)) == bits);
    } else {
      REQUIRE(Half::From(bits) == Value(bits, Half::kFractionBits, Half::kBias));
      REQUIRE(std::signbit(Half::From(bits)) == (bits != magnitude));
      REQUIRE(Half::To(Half::From(bits)) == bits);
    }
  }
}

TEST_CASE_TEMPLATE("Between two neighbours a float32 goes to the nearer one, from the middle to the even one", Half,
                   Float16, Bfloat16) {
  for (std::uint16_t lower = 0; lower < Half::kInfinity; ++lower) {
    const auto upper = static_cast<std::uint16_t>(lower + 1);
    // The neighbour above the largest finite value is infinity. Here it has the value that the next finite number would
    // have, because the midpoint between that number and the largest finite value is already rounded to infinity.
    const double below = Value(lower, Half::kFractionBits, Half::kBias);
    const double above = Value(upper, Half::kFractionBits, Half::kBias);
    const auto middle = static_cast<float>((below + above) / 2);
    // No float32 is exactly in the middle between the two neighbours.
    if (static_cast<double>(middle) != (below + above) / 2) continue;
    CAPTURE(lower);
    const std::uint16_t even = (lower & 1) == 0 ? lower : upper;
    REQUIRE(Half::To(middle) == even);
    REQUIRE(Half::To(-middle) == (even | 0x8000));
    const float before = std::nextafter(middle, 0.0f);
    const float after = std::nextafter(middle, std::numeric_limits<float>::infinity());
    if (static_cast<double>(before) > below) REQUIRE(Half::To(before) == lower);
    if (static_cast<double>(after) < above) REQUIRE(Half::To(after) == upper);
    if (static_cast<double>(before) > below) REQUIRE(Half::To(-before) == (lower | 0x8000));
  }
}

TEST_CASE_TEMPLATE("Any float32 goes to a value that no other one is nearer than", Half, Float16, Bfloat16) {
  Random random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random.Next());
    const auto value = std::bit_cast<float>(bits);
    const std::uint16_t half = Half::To(value);
    CAPTURE(bits);
    if (std::isnan(value)) {
      REQUIRE(half == Half::kNan);
      continue;
    }
    REQUIRE(std::signbit(value) == ((half & 0x8000) != 0));
    const std::uint16_t magnitude = half & 0x7FFF;
    if (magnitude == Half::kInfinity) continue;  // the test above checks where infinity begins
    const double error = std::abs(Value(half, Half::kFractionBits, Half::kBias) - value);
    for (int step : {-1, 1}) {
      if (magnitude == 0 && step < 0) continue;
      const auto other = static_cast<std::uint16_t>(half + step);
      REQUIRE(error <= std::abs(Value(other, Half::kFractionBits, Half::kBias) - value));
    }
  }
}

TEST_CASE("Too large becomes infinity, too small becomes zero of the same sign") {
  CHECK(ToFloat16(65519.0f) == 0x7BFF);
  CHECK(ToFloat16(65520.0f) == 0x7C00);
  CHECK(ToFloat16(-1e30f) == 0xFC00);
  CHECK(ToFloat16(0x1p-25f) == 0x0000);  // half of the smallest subnormal is rounded to even
  CHECK(ToFloat16(-0x1.000002p-25f) == 0x8001);
  CHECK(ToFloat16(-0x1p-40f) == 0x8000);
  CHECK(ToFloat16(std::numeric_limits<float>::infinity()) == 0x7C00);
  CHECK(ToBfloat16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(ToBfloat16(-std::numeric_limits<float>::denorm_min()) == 0x8000);
}

TEST_CASE("Conversions work at compile time") {
  static_assert(FromFloat16(0x3C00) == 1.0f);
  static_assert(ToFloat16(1.0f) == 0x3C00);
  static_assert(FromBfloat16(0x3F80) == 1.0f);
  static_assert(ToBfloat16(-2.0f) == 0xC000);
}

}  // namespace half_test
}  // namespace rondo
