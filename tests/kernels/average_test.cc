// Averages and pre-multiplication, compared with the reference on every instruction set of this processor.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "collectives/kernels/reduce.h"
#include "tests/kernels/instruction_sets.h"
#include "tests/kernels/reference.h"

namespace rondo {
namespace average_test {

using reference::Bits;

constexpr std::array kWorldSizes{1, 2, 3, 4, 5, 7, 8, 33, 127, 128, 255, 256, 1000, 4096, 1 << 24, 0x7FFF'FFFF};

// Runs `kernel(destination, left, right, count)` for several counts and compares the result with `expected`. The result
// goes to separate memory and onto each operand. Odd addresses make every load unaligned.
template <typename Kernel>
void CheckKernel(DataType type, const std::vector<Bits>& left, const std::vector<Bits>& right,
                 const std::vector<Bits>& expected, const Kernel& kernel) {
  const auto left_bytes = reference::Pack(type, left);
  const auto right_bytes = reference::Pack(type, right);
  const auto expected_bytes = reference::Pack(type, expected);
  for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{17}, left.size()}) {
    CAPTURE(count);
    const auto bytes = static_cast<std::ptrdiff_t>(count * SizeOf(type));
    for (int onto : {0, 1, 2}) {  // separate memory, left, right
      CAPTURE(onto);
      std::vector<std::byte> a(left_bytes.size() + 2, std::byte{0xA5});
      std::vector<std::byte> b = a;
      std::vector<std::byte> destination = a;
      std::copy_n(left_bytes.begin(), bytes, a.begin() + 1);
      std::copy_n(right_bytes.begin(), bytes, b.begin() + 1);
      std::vector<std::byte>& result = onto == 0 ? destination : onto == 1 ? a : b;
      kernel(result.data() + 1, a.data() + 1, b.data() + 1, count);
      for (std::size_t i = 0; i < count; ++i) {
        const Bits got = reference::LoadElement(type, result.data() + 1, i);
        if (got == expected[i]) continue;
        FAIL(fmt::format("element {}: {} with {} gave {}, expected {}", i, reference::Print(type, left[i]),
                         reference::Print(type, right[i]), reference::Print(type, got),
                         reference::Print(type, expected[i])));
      }
      CHECK(result.front() == std::byte{0xA5});
      CHECK(result[static_cast<std::size_t>(bytes) + 1] == std::byte{0xA5});
    }
  }
}

TEST_CASE("The last reduction of an average divides once, after the sum, and rounds once") {
  Random random(3);
  for (DataType type : kAllDataTypes) {
    if (!CheckPairing(type, ReduceOp::kAvg)) continue;
    const auto left = reference::AnyValues(type, 500, random);
    const auto right = reference::AnyValues(type, 500, random);
    for (int world_size : kWorldSizes) {
      std::vector<Bits> expected(left.size());
      for (std::size_t i = 0; i < left.size(); ++i)
        expected[i] = reference::SumAndDivide(type, left[i], right[i], world_size);
      ForEachInstructionSet([&](const std::string& name) {
        INFO(name, " world size ", world_size);
        CheckKernel(type, left, right, expected,
                    [&](std::byte* destination, const std::byte* a, const std::byte* b, std::size_t count) {
                      SumAndDivide(destination, a, b, count, type, world_size);
                    });
      });
    }
  }
}

TEST_CASE("Dividing a finished sum gives the same rounding") {
  Random random(4);
  for (DataType type : kAllDataTypes) {
    if (!CheckPairing(type, ReduceOp::kAvg)) continue;
    auto source = reference::AnyValues(type, 500, random);
    for (Bits corner : reference::Corners(type)) source.push_back(corner);
    for (int world_size : kWorldSizes) {
      std::vector<Bits> expected;
      for (Bits value : source) expected.push_back(reference::DivideBy(type, value, world_size));
      ForEachInstructionSet([&](const std::string& name) {
        INFO(name, " world size ", world_size);
        CheckKernel(type, source, source, expected,
                    [&](std::byte* destination, const std::byte* a, const std::byte*, std::size_t count) {
                      if (destination == a || count == 0)
                        return DivideBy(destination, destination, count, type, world_size);
                      DivideBy(destination, a, count, type, world_size);
                    });
      });
    }
  }
}

TEST_CASE("An average's scale makes room for every sum, and is a power of two") {
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    CHECK(AverageScaleOf(type, 1) == 1.0);
    CHECK(AverageScaleOf(type, 2) == 0.5);
    CHECK(AverageScaleOf(type, 3) == 0.25);
    CHECK(AverageScaleOf(type, 4) == 0.25);
    CHECK(AverageScaleOf(type, 65536) == 0x1p-16);
  }
  for (const DataType type : {DataType::kFloat16, DataType::kInt8, DataType::kUint64})
    CHECK(AverageScaleOf(type, 3) == 1.0);
}

TEST_CASE("Of a scaled sum each product, the sum and its quotient are rounded, each once") {
  Random random(7);
  for (DataType type : kAllDataTypes) {
    if (!IsFloating(type)) continue;
    const auto left = reference::AnyValues(type, 500, random);
    const auto right = reference::AnyValues(type, 500, random);
    for (const ScaleFactors factors : {ScaleFactors{0.25, 0.25}, {1.0, 0.125}, {0x1p-16, 1.0}})
      for (const double divisor : {1.0, 0.75, 0.5}) {
        std::vector<Bits> expected;
        for (std::size_t i = 0; i < left.size(); ++i)
          expected.push_back(
              reference::SumScaledAndDivide(type, left[i], right[i], factors.left, factors.right, divisor));
        ForEachInstructionSet([&](const std::string& name) {
          INFO(name, " ", Name(type), " factors ", factors.left, " and ", factors.right, ", divisor ", divisor);
          CheckKernel(type, left, right, expected,
                      [&](std::byte* destination, const std::byte* a, const std::byte* b, std::size_t count) {
                        if (divisor == 1.0) return SumScaled(destination, a, b, count, type, factors);
                        SumScaledAndDivide(destination, a, b, count, type, factors, divisor);
                      });
        });
      }
  }
}

TEST_CASE("A pre-multiplied operand is scaled with one rounding") {
  Random random(5);
  for (DataType type : kAllDataTypes) {
    if (!IsFloating(type)) continue;
    auto source = reference::AnyValues(type, 500, random);
    for (Bits corner : reference::Corners(type)) source.push_back(corner);
    for (double factor : {1.0, 0.5, 1.0 / 3, -0.0, 2.5e-5, 1e30, -7.0, 1e300, 1e-46,
                          std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      std::vector<Bits> expected;
      for (Bits value : source) expected.push_back(reference::Scale(type, value, factor));
      ForEachInstructionSet([&](const std::string& name) {
        INFO(name, " factor ", factor);
        CheckKernel(type, source, source, expected,
                    [&](std::byte* destination, const std::byte* a, const std::byte*, std::size_t count) {
                      Scale(destination, a, count, type, factor);
                    });
      });
    }
  }
}

TEST_CASE("Integer averages divide towards zero, in worlds larger than the type too") {
  const auto average = [](DataType type, Bits value, int world_size) {
    std::array<std::byte, 8> memory{};
    reference::StoreElement(type, memory.data(), 0, value);
    DivideBy(memory.data(), memory.data(), 1, type, world_size);
    return reference::LoadElement(type, memory.data(), 0);
  };
  CHECK(average(DataType::kInt8, 0xF9, 2) == 0xFD);  // -7 / 2 = -3
  CHECK(average(DataType::kInt8, 0x80, 1000) == 0);
  CHECK(average(DataType::kUint8, 255, 256) == 0);
  CHECK(average(DataType::kUint32, 0xFFFF'FFFF, 2) == 0x7FFF'FFFF);
  CHECK(average(DataType::kInt64, Bits{1} << 63, 1) == Bits{1} << 63);
  CHECK(average(DataType::kUint64, ~Bits{0}, 3) == 0x5555'5555'5555'5555);
}

TEST_CASE("Integers and float16 averaged in their wider type are right whatever their sum is") {
  Random random(6);
  for (const DataType type : kAllDataTypes) {
    const DataType wide = AverageTypeOf(type);
    if (wide == type) continue;
    CAPTURE(std::string(Name(type)));
    constexpr std::size_t kCount = 500;
    constexpr int kOperands = 3;
    std::array<std::vector<Bits>, kOperands> operands;
    std::array<std::vector<std::byte>, kOperands> widened;
    for (std::size_t s = 0; s < operands.size(); ++s) {
      operands[s] = reference::AnyValues(type, kCount, random);
      widened[s].resize(kCount * SizeOf(wide));
      Widen(widened[s].data(), reference::Pack(type, operands[s]).data(), kCount, type);
    }
    std::byte* const sum = widened[0].data();
    const ReduceFunction add = FindReduce(wide, ReduceOp::kAvg);
    REQUIRE((add != nullptr));
    add(sum, sum, widened[1].data(), kCount);
    SumAndDivide(sum, sum, widened[2].data(), kCount, wide, kOperands);
    std::vector<std::byte> narrow(kCount * SizeOf(type));
    Narrow(narrow.data(), sum, kCount, type);
    for (std::size_t i = 0; i < kCount; ++i) {
      const Bits expected = reference::Average(type, {operands[0][i], operands[1][i], operands[2][i]}, kOperands);
      const Bits got = reference::LoadElement(type, narrow.data(), i);
      if (got != expected)
        FAIL(fmt::format("element {}: {}, expected {}", i, reference::Print(type, got),
                         reference::Print(type, expected)));
    }
  }
}

}  // namespace average_test
}  // namespace rondo
