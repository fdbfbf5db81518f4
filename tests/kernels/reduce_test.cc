// The reduction kernels, compared bit by bit with the reference on every instruction set of this processor.
#include "collectives/kernels/reduce.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/instruction_sets.h"
#include "tests/kernels/reference.h"

namespace rondo {
namespace reduce_test {

using reference::Bits;

struct Pairing {
  DataType type;
  ReduceOp op;
};

std::vector<Pairing> AllPairings() {
  std::vector<Pairing> pairings;
  for (DataType type : kAllDataTypes)
    for (ReduceOp op : kAllReduceOps)
      if (CheckPairing(type, op)) pairings.push_back({type, op});
  return pairings;
}

// A vector register has 16 to 64 bytes. For every type and instruction set, these counts end before, at and after its
// boundary.
constexpr std::array<std::size_t, 27> kCounts{0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,  32,
                                              33, 47, 63, 64, 65, 66, 95, 127, 128, 129, 255, 257, 1000};
constexpr std::array<std::size_t, 5> kOffsets{0, 1, 3, 32, 63};  // distance of an operand from a 64-byte boundary

// Memory at a chosen distance from a 64-byte boundary, between guard bytes.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t offset)
      : bytes_(bytes), memory_(bytes + offset + 3 * kGuardBytes, std::byte{0xA5}) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = (address / 64 + 2) * 64 - address + offset;
  }
  std::byte* data() { return memory_.data() + begin_; }
  void Fill(const std::vector<std::byte>& from) {
    if (bytes_ != 0) std::memcpy(data(), from.data(), bytes_);
  }
  bool Equals(const std::vector<std::byte>& expected) {
    return bytes_ == 0 || std::memcmp(data(), expected.data(), bytes_) == 0;
  }
  bool GuardsAreWhole() const {
    const auto untouched = [](std::byte b) { return b == std::byte{0xA5}; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_), untouched) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_), memory_.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuardBytes = 128;
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::size_t begin_ = 0;
};

// Describes the first element that differs; empty: none does.
std::optional<std::string> Difference(DataType type, const std::byte* got, const std::vector<Bits>& expected,
                                      const std::vector<Bits>& left, const std::vector<Bits>& right) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Bits value = reference::LoadElement(type, got, i);
    if (value == expected[i]) continue;
    return fmt::format("element {}: {} with {} gave {}, expected {}", i, reference::Print(type, left[i]),
                       reference::Print(type, right[i]), reference::Print(type, value),
                       reference::Print(type, expected[i]));
  }
  return std::nullopt;
}

TEST_CASE("Every pairing that makes sense has a kernel, every other has none") {
  for (DataType type : kAllDataTypes)
    for (ReduceOp op : kAllReduceOps) {
      CAPTURE(std::string(Name(type)));
      CAPTURE(std::string(Name(op)));
      CHECK((FindReduce(type, op) != nullptr) == CheckPairing(type, op).has_value());
    }
}

TEST_CASE("Forcing an instruction set gives kernels of their own, so that the tests below test each") {
  std::set<ReduceFunction> kernels;
  std::size_t instruction_sets = 0;
  ForEachInstructionSet([&](const std::string& name) {
    INFO(name);
    ++instruction_sets;
    for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kInt32})
      CHECK(kernels.insert(FindReduce(type, ReduceOp::kSum)).second);
  });
  MESSAGE("instruction sets tested: ", instruction_sets);
  CHECK(instruction_sets >= 1);
}

TEST_CASE("Average and pre-multiplied sum reduce as the sum") {
  CHECK((FindReduce(DataType::kFloat32, ReduceOp::kAvg) == FindReduce(DataType::kFloat32, ReduceOp::kSum)));
  CHECK((FindReduce(DataType::kBfloat16, ReduceOp::kPremulSum) == FindReduce(DataType::kBfloat16, ReduceOp::kSum)));
  CHECK((FindReduce(DataType::kInt8, ReduceOp::kAvg) == FindReduce(DataType::kInt8, ReduceOp::kSum)));
}

TEST_CASE("Any count, any alignment, in place on either side: the result is right and nothing else is touched") {
  Random random(1);
  for (const auto& pairing : AllPairings()) {
    const auto [type, op] = pairing;
    const std::string pair = std::string(Name(type)) + " " + std::string(Name(op));
    CAPTURE(pair);
    const std::vector<Bits> left = reference::AnyValues(type, kCounts.back(), random);
    const std::vector<Bits> right = reference::AnyValues(type, kCounts.back(), random);
    std::vector<Bits> result(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) result[i] = reference::Reduce(type, op, left[i], right[i]);
    const auto left_bytes = reference::Pack(type, left);
    const auto right_bytes = reference::Pack(type, right);
    const auto expected = reference::Pack(type, result);
    ForEachInstructionSet([&, type = type, op = op](const std::string& name) {
      INFO(name);
      const ReduceFunction reduce = FindReduce(type, op);
      for (std::size_t count : kCounts)
        for (std::size_t offset : kOffsets) {
          CAPTURE(count);
          CAPTURE(offset);
          Guarded a(count * SizeOf(type), offset);
          Guarded b(count * SizeOf(type), kOffsets[count % kOffsets.size()]);
          Guarded destination(count * SizeOf(type), kOffsets[(count + offset) % kOffsets.size()]);
          a.Fill(left_bytes);
          b.Fill(right_bytes);
          reduce(destination.data(), a.data(), b.data(), count);
          const bool apart = destination.Equals(expected) && a.Equals(left_bytes) && b.Equals(right_bytes);
          reduce(a.data(), a.data(), b.data(), count);
          const bool onto_left = a.Equals(expected) && b.Equals(right_bytes);
          a.Fill(left_bytes);
          reduce(b.data(), a.data(), b.data(), count);
          const bool onto_right = b.Equals(expected) && a.Equals(left_bytes);
          const bool guards = a.GuardsAreWhole() && b.GuardsAreWhole() && destination.GuardsAreWhole();
          if (apart && onto_left && onto_right && guards) continue;
          CHECK(apart);
          CHECK(onto_left);
          CHECK(onto_right);
          REQUIRE(guards);
        }
    });
  }
}

TEST_CASE("Every corner value meets every other, in both orders, to the same bits") {
  for (const auto [type, op] : AllPairings()) {
    const std::vector<Bits> corners = reference::Corners(type);
    std::vector<Bits> left;
    std::vector<Bits> right;
    std::vector<Bits> expected;
    for (Bits a : corners)
      for (Bits b : corners) {
        left.push_back(a);
        right.push_back(b);
        expected.push_back(reference::Reduce(type, op, a, b));
      }
    const auto left_bytes = reference::Pack(type, left);
    const auto right_bytes = reference::Pack(type, right);
    ForEachInstructionSet([&, type = type, op = op](const std::string& name) {
      INFO(name, " ", std::string(Name(op)));
      std::vector<std::byte> result(left_bytes.size());
      FindReduce(type, op)(result.data(), left_bytes.data(), right_bytes.data(), left.size());
      CHECK(Difference(type, result.data(), expected, left, right).value_or("") == "");
      std::vector<std::byte> swapped(left_bytes.size());
      FindReduce(type, op)(swapped.data(), right_bytes.data(), left_bytes.data(), left.size());
      CHECK(result == swapped);
      // A single element does not fill a vector register, so other code reduces it. The bits must be the same.
      for (std::size_t i = 0; i < left.size(); ++i) {
        const std::size_t at = i * SizeOf(type);
        FindReduce(type, op)(swapped.data() + at, left_bytes.data() + at, right_bytes.data() + at, 1);
      }
      CHECK(result == swapped);
    });
  }
}

TEST_CASE("All 65536 values of a 16-bit float meet a choice of others") {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    Random random(2);
    std::vector<Bits> others = reference::Corners(type);
    for (Bits value : reference::AnyValues(type, 16, random)) others.push_back(value);
    std::vector<Bits> left(65536);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    const auto left_bytes = reference::Pack(type, left);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax})
      // Every operation uses a quarter of `others`; together the operations use all of them.
      for (std::size_t k = static_cast<std::size_t>(op) % 4; k < others.size(); k += 4) {
        const std::vector<Bits> right(left.size(), others[k]);
        const auto right_bytes = reference::Pack(type, right);
        std::vector<Bits> expected(left.size());
        for (std::size_t i = 0; i < left.size(); ++i) expected[i] = reference::Reduce(type, op, left[i], right[i]);
        ForEachInstructionSet([&](const std::string& name) {
          INFO(name, " ", std::string(Name(op)));
          std::vector<std::byte> result(left_bytes.size());
          FindReduce(type, op)(result.data(), left_bytes.data(), right_bytes.data(), left.size());
          CHECK(Difference(type, result.data(), expected, left, right).value_or("") == "");
        });
      }
  }
}

TEST_CASE("The rules in numbers") {
  const auto reduce = [](DataType type, ReduceOp op, Bits left, Bits right) {
    std::array<std::byte, 8> a{};
    std::array<std::byte, 8> b{};
    reference::StoreElement(type, a.data(), 0, left);
    reference::StoreElement(type, b.data(), 0, right);
    FindReduce(type, op)(a.data(), a.data(), b.data(), 1);
    return reference::LoadElement(type, a.data(), 0);
  };
  SUBCASE("integers wrap") {
    CHECK(reduce(DataType::kInt8, ReduceOp::kSum, 0x7F, 1) == 0x80);
    CHECK(reduce(DataType::kUint8, ReduceOp::kProd, 16, 17) == 16);
    CHECK(reduce(DataType::kInt64, ReduceOp::kProd, ~Bits{0}, ~Bits{0}) == 1);
  }
  SUBCASE("signed and unsigned order differently") {
    CHECK(reduce(DataType::kInt32, ReduceOp::kMin, 0xFFFF'FFFF, 1) == 0xFFFF'FFFF);
    CHECK(reduce(DataType::kUint32, ReduceOp::kMin, 0xFFFF'FFFF, 1) == 1);
  }
  SUBCASE("any byte but 0 is true, and results are 0 or 1") {
    CHECK(reduce(DataType::kBool, ReduceOp::kBand, 2, 4) == 1);
    CHECK(reduce(DataType::kBool, ReduceOp::kBxor, 2, 4) == 0);
    CHECK(reduce(DataType::kBool, ReduceOp::kMax, 0, 0x80) == 1);
  }
  SUBCASE("NaN wins min and max, and is the canonical one") {
    CHECK(reduce(DataType::kFloat32, ReduceOp::kMin, 0xFFC1'2345, 0x3F80'0000) == 0x7FC0'0000);
    CHECK(reduce(DataType::kBfloat16, ReduceOp::kMax, 0x7F80, 0xFF81) == 0x7FC0);
    CHECK(reduce(DataType::kFloat64, ReduceOp::kMax, 0x7FF0'0000'0000'0001, 0) == 0x7FF8'0000'0000'0000);
  }
  SUBCASE("infinity minus infinity is the canonical NaN, positive though processors make it negative") {
    CHECK(reduce(DataType::kFloat32, ReduceOp::kSum, 0x7F80'0000, 0xFF80'0000) == 0x7FC0'0000);
    CHECK(reduce(DataType::kFloat16, ReduceOp::kSum, 0x7C00, 0xFC00) == 0x7E00);
  }
  SUBCASE("-0 is below +0, and -0 plus -0 stays -0") {
    CHECK(reduce(DataType::kFloat32, ReduceOp::kMin, 0, 0x8000'0000) == 0x8000'0000);
    CHECK(reduce(DataType::kFloat16, ReduceOp::kMax, 0x8000, 0) == 0);
    CHECK(reduce(DataType::kBfloat16, ReduceOp::kSum, 0x8000, 0x8000) == 0x8000);
  }
  SUBCASE("subnormals are kept") {
    CHECK(reduce(DataType::kFloat32, ReduceOp::kSum, 1, 1) == 2);
    CHECK(reduce(DataType::kFloat16, ReduceOp::kSum, 1, 0x03FF) == 0x0400);
  }
  SUBCASE("16-bit floats round to nearest even and overflow to infinity") {
    CHECK(reduce(DataType::kBfloat16, ReduceOp::kSum, 0x3F80, 0x3B80) == 0x3F80);  // 1 + 2^-8: a tie, down to even
    CHECK(reduce(DataType::kBfloat16, ReduceOp::kSum, 0x3F81, 0x3B80) == 0x3F82);  // a tie, up to even
    CHECK(reduce(DataType::kFloat16, ReduceOp::kSum, 0x7BFF, 0x7BFF) == 0x7C00);
    // 65504 + 16: a tie, rounded up to infinity
    CHECK(reduce(DataType::kFloat16, ReduceOp::kSum, 0x7BFF, 0x4C00) == 0x7C00);
  }
}

}  // namespace reduce_test
}  // namespace rondo
