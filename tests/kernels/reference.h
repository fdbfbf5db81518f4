// What the kernels must compute, one element at a time in plain C++ and on bit patterns: written from the contract in
// collectives/kernels/reduce.h, not from the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "base/reduce_op.h"

namespace rondo::reference {

// An element's bits in the low bytes; what lies above is zero.
using Bits = std::uint64_t;

// left op right, where kAvg and kPremulSum are their sums.
Bits Reduce(DataType type, ReduceOp op, Bits left, Bits right);
Bits SumAndDivide(DataType type, Bits left, Bits right, int world_size);
Bits DivideBy(DataType type, Bits source, int world_size);
// The average of these operands as a whole: summed from the left in AverageTypeOf(type), scaled by a power of two where
// that is no wider than `type`, and divided by `divisor`.
Bits Average(DataType type, const std::vector<Bits>& operands, int divisor);
// (left * left_factor + right * right_factor) / divisor, of a floating type.
Bits SumScaledAndDivide(DataType type, Bits left, Bits right, double left_factor, double right_factor, double divisor);
Bits Scale(DataType type, Bits source, double factor);

// The bits of `value` in a floating type, rounded to nearest even.
Bits FromDouble(DataType type, double value);

// Values where arithmetic goes wrong: extremes, zeros of both signs, subnormals, infinities, quiet and signalling NaNs
// of both signs with payloads, values that round up, down and to even. Ends with a few ordinary ones.
std::vector<Bits> Corners(DataType type);
// Half of them corners, half of them any bits.
std::vector<Bits> AnyValues(DataType type, std::size_t count, Random& random);

Bits LoadElement(DataType type, const std::byte* memory, std::size_t index);
void StoreElement(DataType type, std::byte* memory, std::size_t index, Bits value);
// The elements as they lie in memory.
std::vector<std::byte> Pack(DataType type, const std::vector<Bits>& values);

// "float16 0x7e00"
std::string Print(DataType type, Bits value);

}  // namespace rondo::reference
