// Averages that fit their type although the sum does not, for every type for which such averages are guaranteed. Also
// checks the results.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tests/communicator/plain.h"
#include "tests/kernels/reference.h"

namespace rondo::extreme {

using reference::Bits;

inline constexpr std::array kTypes{DataType::kInt8,    DataType::kUint8,  DataType::kInt32,   DataType::kUint32,
                                   DataType::kInt64,   DataType::kUint64, DataType::kFloat16, DataType::kBfloat16,
                                   DataType::kFloat32, DataType::kFloat64};

// Consecutive elements are, in turn, close to the type's largest number, close to its smallest, and ordinary. The
// numbers of different ranks differ by a few steps.
inline Bits OperandOf(DataType type, Rank rank, std::size_t element) {
  const auto steps = static_cast<Bits>(rank);
  const Bits all = ~Bits{0} >> (64 - 8 * SizeOf(type));
  const Bits top = all ^ (all >> 1);
  const bool is_signed = type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
  if (type == DataType::kFloat16) {  // numbers whose sums are exact in float32
    constexpr std::array<Bits, 3> kStarts{0x7BFF, 0xFBFF, 0x6400};
    return kStarts[element % 3] - steps;
  }
  if (IsFloating(type)) {  // numbers of few bits, whose sums are exact in any order
    const int exponent = type == DataType::kFloat64 ? 1020 : 124;
    const double small = 16 - static_cast<double>(rank);
    constexpr std::array<double, 3> kSigns{1, -1, 0};
    const double sign = kSigns[element % 3];
    return reference::FromDouble(type, sign == 0 ? small : std::ldexp(sign * (small - 1), exponent));
  }
  switch (element % 3) {
    case 0: return (is_signed ? top - 1 : all) - steps;
    case 1: return (is_signed ? top : 0) + steps;
    default: return 100 - steps;
  }
}

inline Bits AverageOf(DataType type, int world, std::size_t element) {
  std::vector<Bits> operands;
  for (Rank rank = 0; rank < world; ++rank) operands.push_back(OperandOf(type, rank, element));
  return reference::Average(type, operands, world);
}

struct Case {
  Collective collective = Collective::kAllReduce;
  std::optional<Algorithm> algorithm = {};
  bool in_place = false;
  std::size_t count = 210;
  OperationOptions options = {};
};

// Runs the case. Returns "" if this rank got the right averages in its part of the result, otherwise a description of
// what it got. `memory`(bytes) returns a buffer that holds these bytes; `read`(buffer) returns them. Both must outlive
// the call.
template <typename Memory, typename Read>
std::string Run(Communicator& communicator, const Case& asked, DataType type, Memory&& memory, Read&& read) {
  const Rank rank = communicator.rank();
  const int world = communicator.world_size();
  plain::Case c;
  c.collective = asked.collective;
  c.algorithm = asked.algorithm;
  c.root = world - 1;
  c.in_place = asked.in_place && (asked.collective != Collective::kReduce || rank == c.root);
  c.counts.assign(static_cast<std::size_t>(world), asked.count);
  const bool scatters = asked.collective == Collective::kReduceScatter;
  const std::size_t brought = scatters ? asked.count * static_cast<std::size_t>(world) : asked.count;
  std::vector<Bits> values;
  for (std::size_t i = 0; i < brought; ++i) values.push_back(OperandOf(type, rank, i));
  const std::size_t first = scatters ? static_cast<std::size_t>(rank) * asked.count : 0;
  std::byte* const input = memory(reference::Pack(type, values));
  std::byte* const output =
      c.in_place ? input + first * SizeOf(type) : memory(std::vector<std::byte>(asked.count * SizeOf(type)));
  const Status status = plain::Issue(communicator, c, input, output, type, ReduceOp::kAvg, asked.options).Wait();
  if (!status) return status.error().ToString();
  if (asked.collective == Collective::kReduce && rank != c.root) return "";
  const std::vector<std::byte> got = read(output, asked.count * SizeOf(type));
  for (std::size_t i = 0; i < asked.count; ++i) {
    const Bits average = reference::LoadElement(type, got.data(), i);
    const Bits expected = AverageOf(type, world, first + i);
    if (average != expected)
      return fmt::format("element {} is {}, expected {}", first + i, reference::Print(type, average),
                         reference::Print(type, expected));
  }
  return "";
}

// Runs the case in host memory. Returns "" if this rank got the right averages, otherwise a description of what it got.
inline std::string Run(Communicator& communicator, const Case& asked, DataType type) {
  std::vector<std::vector<std::byte>> buffers;
  const auto memory = [&](std::vector<std::byte> bytes) { return buffers.emplace_back(std::move(bytes)).data(); };
  const auto read = [](const std::byte* from, std::size_t bytes) { return std::vector<std::byte>(from, from + bytes); };
  return Run(communicator, asked, type, memory, read);
}

}  // namespace rondo::extreme
