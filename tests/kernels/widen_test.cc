// Conversions of all 16-bit floats to float32 and back, compared with base/half.h on every instruction set of this
// processor.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "collectives/kernels/reduce.h"
#include "tests/kernels/instruction_sets.h"

namespace rondo {
namespace widen_test {

constexpr std::array kHalves{DataType::kFloat16, DataType::kBfloat16};

float Wide(DataType type, std::uint16_t bits) {
  return type == DataType::kFloat16 ? FromFloat16(bits) : FromBfloat16(bits);
}
std::uint16_t Narrowed(DataType type, float value) {
  return type == DataType::kFloat16 ? ToFloat16(value) : ToBfloat16(value);
}

template <typename T>
std::vector<std::byte> AtOddAddress(const std::vector<T>& values) {
  std::vector<std::byte> bytes(1 + values.size() * sizeof(T));
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  return bytes;
}

// Narrows the first `count` of `values`, from one odd address to another, between guard bytes.
void CheckNarrowing(DataType type, const std::vector<float>& values, std::size_t count) {
  const std::vector<std::byte> source = AtOddAddress(values);
  std::vector<std::byte> result(1 + 2 * count + 1, std::byte{0xA5});
  Narrow(result.data() + 1, source.data() + 1, count, type);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, result.data() + 1 + 2 * i, 2);
    wrong += bits != Narrowed(type, values[i]);
  }
  CHECK(wrong == 0);
  CHECK(result.front() == std::byte{0xA5});
  CHECK(result.back() == std::byte{0xA5});
}

TEST_CASE("widening gives every value exactly, and the canonical NaN") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const std::vector<std::byte> source = AtOddAddress(halves);
  for (const DataType type : kHalves) {
    ForEachInstructionSet([&](const std::string& name) {
      INFO(name, " ", Name(type));
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{7}, halves.size() - 1, halves.size()}) {
        std::vector<std::byte> result(1 + 4 * count + 1, std::byte{0xA5});
        Widen(result.data() + 1, source.data() + 1, count, type);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          std::uint32_t bits;
          std::memcpy(&bits, result.data() + 1 + 4 * i, 4);
          wrong += bits != std::bit_cast<std::uint32_t>(Wide(type, halves[i]));
        }
        CHECK(wrong == 0);
        CHECK(result.front() == std::byte{0xA5});
        CHECK(result.back() == std::byte{0xA5});
      }
    });
  }
}

TEST_CASE("narrowing undoes widening, and rounds what lies between once, to nearest even") {
  for (const DataType type : kHalves) {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(Wide(type, static_cast<std::uint16_t>(i)));
      // The value, the midpoint between it and the next value of its type, and the neighbours of both.
      const std::uint32_t half_step = type == DataType::kFloat16 ? 1u << 12 : 1u << 15;
      for (const std::uint32_t near :
           {bits, bits + 1, bits - 1, bits + half_step, bits + half_step - 1, bits + half_step + 1})
        values.push_back(std::bit_cast<float>(near));
    }
    Random random(7);
    for (int i = 0; i < 100'000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.Next())));
    ForEachInstructionSet([&](const std::string& name) {
      INFO(name, " ", Name(type));
      for (const std::size_t count : {std::size_t{0}, std::size_t{3}, values.size()})
        CheckNarrowing(type, values, count);
    });
  }
}

}  // namespace widen_test
}  // namespace rondo
