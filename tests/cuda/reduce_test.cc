// Tests what the device kernels compute. The kernels run here as one host call for each thread, and are compared bit by
// bit with the reference of the host's kernels.
#include "cuda/kernels/reduce.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "tests/cuda/host_kernels.h"
#include "tests/kernels/reference.h"
#include "tests/support/guarded_buffer.h"

namespace rondo::cuda {
namespace reduce_test {

using reference::Bits;

HostKernel Find(DataType type, ReduceOp op) {
  return FindHostKernel(fmt::format("rondo_device_reduce_{}_{}", Name(type), Name(op)));
}

// The left fold of element i, as the contract defines it.
Bits Expected(DataType type, ReduceOp op, const std::vector<std::vector<Bits>>& sources, std::size_t i,
              const std::vector<double>& scales, int divisor) {
  const auto operand = [&](std::size_t s) {
    return op == ReduceOp::kPremulSum ? reference::Scale(type, sources[s][i], scales[s]) : sources[s][i];
  };
  if (op == ReduceOp::kAvg) {
    std::vector<Bits> operands;
    for (std::size_t s = 0; s < sources.size(); ++s) operands.push_back(operand(s));
    return reference::Average(type, operands, divisor);
  }
  Bits value = operand(0);
  for (std::size_t s = 1; s < sources.size(); ++s) value = reference::Reduce(type, op, value, operand(s));
  return value;
}

struct Case {
  DataType type;
  ReduceOp op;
  std::size_t elements;
  std::size_t count;
  std::uint64_t threads;
  std::vector<std::size_t> offsets;  // offsets of the destination, then of each source
  int divisor = 7;
};

void Run(const Case& c, Random& random) {
  const HostKernel kernel = Find(c.type, c.op);
  REQUIRE(bool(kernel != nullptr));
  const std::size_t bytes = c.elements * SizeOf(c.type);
  std::vector<std::vector<Bits>> values;
  std::vector<GuardedBuffer> memory;
  GuardedBuffer destination(bytes, c.offsets[0]);
  ReduceArguments arguments;
  std::vector<double> scales;
  for (std::size_t s = 0; s < c.count; ++s) {
    values.push_back(reference::AnyValues(c.type, c.elements, random));
    memory.emplace_back(bytes, c.offsets[s + 1]);
    const auto packed = reference::Pack(c.type, values.back());
    if (bytes > 0) std::memcpy(memory.back().bytes().data(), packed.data(), bytes);
    scales.push_back(0.3 * static_cast<double>(s) - 1.7);
  }
  for (std::size_t s = 0; s < c.count; ++s) {
    arguments.sources[s] = memory[s].bytes().data();
    arguments.scales[s] = scales[s];
  }
  arguments.destination = destination.bytes().data();
  arguments.elements = c.elements;
  arguments.count = static_cast<std::int32_t>(c.count);
  arguments.divisor = c.op == ReduceOp::kAvg ? c.divisor : 0;
  for (std::uint64_t thread = 0; thread < c.threads; ++thread) kernel(arguments, thread, c.threads);

  CHECK(destination.GuardsIntact());
  for (std::size_t i = 0; i < c.elements; ++i) {
    const Bits got = reference::LoadElement(c.type, destination.bytes().data(), i);
    const Bits expected = Expected(c.type, c.op, values, i, scales, c.divisor);
    if (got == expected) continue;
    FAIL(fmt::format("{} {}: element {} of {}, {} sources, divided by {}, {} threads: {}, expected {}", Name(c.type),
                     Name(c.op), i, c.elements, c.count, c.divisor, c.threads, reference::Print(c.type, got),
                     reference::Print(c.type, expected)));
  }
}

TEST_CASE("There is a kernel for every pairing that CheckPairing allows, and for no other") {
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps) {
      CAPTURE(Name(type));
      CAPTURE(Name(op));
      CHECK((Find(type, op) != nullptr) == CheckPairing(type, op).has_value());
    }
}

TEST_CASE("Every type and operation reduces one to five vectors to the bits of the contract") {
  Random random(20);
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps) {
      if (!CheckPairing(type, op)) continue;
      for (const std::size_t count : {1u, 2u, 3u, 5u})
        Run({type, op, 2000, count, 7, std::vector<std::size_t>(count + 1, 0)}, random);
    }
}

TEST_CASE("Averages are divided to the bits of a division, whatever the world's size") {
  Random random(23);
  for (const DataType type : kAllDataTypes) {
    if (!CheckPairing(type, ReduceOp::kAvg)) continue;
    for (const int divisor :
         {1, 2, 3, 5, 6, 7, 10, 41, 49, 96, 127, 128, 129, 255, 256, 257, 1000, 4093, 65521, 65535, 65536})
      for (const std::size_t count : {1u, 2u}) Run({type, ReduceOp::kAvg, 3000, count, 7, {0, 0, 0}, divisor}, random);
  }
}

TEST_CASE("An average whose sum is beyond the type is right") {
  const auto average_of = [](DataType type, Bits operand, std::size_t count) {
    const std::vector<std::byte> memory = reference::Pack(type, std::vector<Bits>(40, operand));
    std::vector<std::byte> averages(memory.size());
    ReduceArguments arguments;
    arguments.destination = averages.data();
    for (std::size_t s = 0; s < count; ++s) arguments.sources[s] = memory.data();
    arguments.elements = 40;
    arguments.count = arguments.divisor = static_cast<std::int32_t>(count);
    Find(type, ReduceOp::kAvg)(arguments, 0, 1);
    CHECK(averages == memory);  // the average of equal operands is that operand
  };
  average_of(DataType::kFloat16, 0x78E2, 3);   // 40000
  average_of(DataType::kFloat16, 0x7BFF, 16);  // the largest finite value
  average_of(DataType::kInt8, 100, 3);
  average_of(DataType::kInt8, 0x80, 16);  // -128
  average_of(DataType::kUint8, 255, 16);
  average_of(DataType::kInt32, 0x8000'0000, 16);
  average_of(DataType::kUint32, 0xFFFF'FFFF, 16);
  average_of(DataType::kInt64, Bits{1} << 63, 16);
  average_of(DataType::kInt64, ~Bits{0} >> 1, 3);
  average_of(DataType::kUint64, ~Bits{0}, 16);
  // These values have few significant bits, so their sums are exact.
  average_of(DataType::kBfloat16, 0x7F70, 16);  // 3.2e38
  average_of(DataType::kFloat32, 0x7F7F'FF00, 16);
  average_of(DataType::kFloat32, 0x7F70'0000, 3);
  average_of(DataType::kFloat64, 0x7FEF'FFFF'FFFF'0000, 16);
}

// Near the smallest floats, a quotient can be half way between two representable values.
TEST_CASE("A quotient half way between two of the smallest floats is rounded to even, as by a division") {
  struct Quotient {
    float sum;
    int divisor;
  };
  for (const Quotient q : {Quotient{-0x1.969d92p-125F, 412},
                           {-0x1.6d4ee8p-127F, 420},
                           {0x1.0edb1ap-123F, 1232},
                           {-0x1.7d420cp-127F, 1674}}) {
    CAPTURE(q.divisor);
    CHECK(Divisor<float>(q.divisor).Divide(q.sum) == q.sum / static_cast<float>(q.divisor));
  }
}

TEST_CASE("Vectors of every length, among more and fewer threads than there are lines") {
  Random random(21);
  for (const DataType type : {DataType::kUint8, DataType::kBfloat16, DataType::kFloat32, DataType::kInt64})
    for (const std::size_t elements : {0u, 1u, 2u, 3u, 7u, 8u, 15u, 16u, 17u, 31u, 33u, 63u, 64u, 65u, 129u, 500u})
      for (const std::uint64_t threads : {1u, 2u, 3u, 32u})
        Run({type, ReduceOp::kSum, elements, 2, threads, {0, 0, 0}}, random);
}

TEST_CASE("Memory at any distance from a line of 16 bytes, alike or not, odd addresses too") {
  Random random(22);
  for (const DataType type : {DataType::kUint8, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64})
    for (std::size_t destination = 0; destination < 17; ++destination)
      for (const std::size_t other : {destination, destination + 16, destination + 1, std::size_t{0}, std::size_t{4}})
        Run({type, ReduceOp::kSum, 70, 2, 3, {destination, destination, other}}, random);
}

TEST_CASE("The destination may be one of the sources") {
  std::vector<float> own(1000), other(1000), sum(1000);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<float>(i);
    other[i] = 0.5F;
    sum[i] = own[i] + other[i];
  }
  ReduceArguments arguments;
  arguments.destination = reinterpret_cast<std::byte*>(own.data());
  arguments.sources[0] = reinterpret_cast<const std::byte*>(own.data());
  arguments.sources[1] = reinterpret_cast<const std::byte*>(other.data());
  arguments.elements = own.size();
  arguments.count = 2;
  for (std::uint64_t thread = 0; thread < 3; ++thread) Find(DataType::kFloat32, ReduceOp::kSum)(arguments, thread, 3);
  CHECK(own == sum);
}

}  // namespace reduce_test
}  // namespace rondo::cuda
