// What the kernels must compute, one element at a time in plain C++, on bit patterns. This reference implements the
// contract in collectives/kernels/reduce.h, and shares no code with the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "base/reduce_op.h"

namespace rondo::reference {

// An element's bits in the low bytes; the other bytes are zero.
using Bits = std::uint64_t;

// Returns `left op right`; for kAvg and kPremulSum this is the sum.
Bits Reduce(DataType type, ReduceOp op, Bits left, Bits right);
Bits SumAndDivide(DataType type, Bits left, Bits right, int world_size);
Bits DivideBy(DataType type, Bits source, int world_size);
// The average of all operands: summed from the left in AverageTypeOf(type), and divided by `divisor`. If that type is
// no wider than `type`, the operands are scaled by a power of two.
Bits Average(DataType type, const std::vector<Bits>& operands, int divisor);
// Returns (left * left_factor + right * right_factor) / divisor, for floating types.
Bits SumScaledAndDivide(DataType type, Bits left, Bits right, double left_factor, double right_factor, double divisor);
Bits Scale(DataType type, Bits source, double factor);

// The bits of `value` in a floating type, rounded to the nearest value, ties to even.
Bits FromDouble(DataType type, double value);

// Values that are difficult for arithmetic: extremes, zeros of both signs, subnormals, infinities, quiet and signalling
// NaNs of both signs with payloads, values that round up, down and to even. A few ordinary values follow.
std::vector<Bits> Corners(DataType type);
// Half of the values are corners, the other half have random bits.
std::vector<Bits> AnyValues(DataType type, std::size_t count, Random& random);

Bits LoadElement(DataType type, const std::byte* memory, std::size_t index);
void StoreElement(DataType type, std::byte* memory, std::size_t index, Bits value);
// The elements in their memory format.
std::vector<std::byte> Pack(DataType type, const std::vector<Bits>& values);

// Returns for example "float16 0x7e00".
std::string Print(DataType type, Bits value);

}  // namespace rondo::reference
