// The arithmetic of reductions on plain memory: one kernel per pairing of type and operation that CheckPairing allows,
// vectorised with Highway, the instruction set chosen at run time.
//
// For all functions here
//   Memory     `elements` elements of the type behind each pointer, at any alignment, odd addresses too. `destination`
//              may be exactly an operand; any other overlap is forbidden. Zero elements are legal, pointers may be
//              null.
//   Integers   wrap modulo 2^bits. kInt128 has sums and averages only.
//   Floats     16-bit ones are computed in float32 and rounded once, to nearest even. Subnormals are kept. Every NaN
//              that results is the type's canonical one (base/half.h), whatever NaN went in. min and max give NaN where
//              an operand is NaN, and order -0 below +0.
//   Bool       any byte but 0 is true; results are 0 or 1.
//   Same bits  on every instruction set, and for either order of the two operands. Floats assume the thread's
//              floating-point environment as a program finds it: round to nearest, no flush-to-zero.
// Thread rule: any thread. They allocate nothing and cannot fail.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "base/reduce_op.h"

namespace rondo {

// destination[i] = left[i] op right[i]
using ReduceFunction = void (*)(std::byte* destination, const std::byte* left, const std::byte* right,
                                std::size_t elements);

// Null where CheckPairing refuses the pairing, and for users' operations, which have no kernel here. kAvg and
// kPremulSum give the sum: their other halves are below.
ReduceFunction FindReduce(DataType type, ReduceOp op);

// The last step of an average: destination[i] = (left[i] + right[i]) / world_size. Integers wrap in the sum and divide
// towards zero; a 16-bit float is rounded once, after the division.
// REQUIRES: world_size >= 1; the type is not kBool.
void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int world_size);

// The same where the sum is there already: destination[i] = source[i] / world_size.
// REQUIRES: world_size >= 1; the type is not kBool.
void DivideBy(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int world_size);

// By what each input of an average of `type` is multiplied before it is summed, so that no sum of world_size of them is
// beyond the type: the largest power of two with AverageScaleOf() * world_size <= 1. The product is exact but for
// numbers below world_size times the least of full precision (1e-38 in float32 and bfloat16, 2e-308 in float64), which
// may lose their last bits. 1 for types of which averages are summed in a wider one (AverageTypeOf), and in a world of
// one.
double AverageScaleOf(DataType type, int world_size);
struct ScaleFactors {
  double left = 1.0, right = 1.0;
};

// destination[i] = left[i] * factors.left + right[i] * factors.right, and that divided by `divisor`: products, sum and
// quotient are each rounded to the type that computes, and the last to `type`.
// REQUIRES: IsFloating(type).
void SumScaled(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
               DataType type, ScaleFactors factors);
void SumScaledAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, ScaleFactors factors, double divisor);

// An operand of a pre-multiplied sum: destination[i] = source[i] * factor. The factor is first rounded to the type that
// computes: float32, for kFloat64 float64.
// REQUIRES: IsFloating(type).
void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor);

// Between `type` and its wider type, WideTypeOf(type). Widening is exact. Narrowing rounds 16-bit floats once, to
// nearest even, infinity where it is too large, and keeps the lowest bits of an integer. NaNs become canonical both
// ways. Unlike elsewhere, destination and source must not overlap. REQUIRES: WideTypeOf(type) != type.
void Widen(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void Narrow(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

}  // namespace rondo
