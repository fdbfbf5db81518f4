// The arithmetic of reductions on plain memory: one kernel for each combination of type and operation that CheckPairing
// allows. Kernels are vectorised with Highway, which chooses the instruction set at run time.
//
// The following holds for all functions of this header:
//   Memory     Each pointer points to `elements` elements of the type, at any alignment, even at odd addresses.
//              `destination` may be exactly an operand; no other overlap is allowed. If there are no elements, nothing
//              is done, and pointers may be null.
//   Integers   wrap modulo 2^bits. kInt128 supports sums and averages only.
//   Floats     16-bit floats are computed in float32 and rounded once, to nearest even. Subnormals are kept. Every NaN
//              in a result is the type's canonical one (base/half.h), whichever NaN was the input. min and max give NaN
//              if an operand is NaN, and order -0 below +0.
//   Bool       Every byte other than 0 is true; results are 0 or 1.
//   Bits       All instruction sets, and both orders of the two operands, give the same bits. Floats require the
//              default floating-point environment of a thread: round to nearest, no flush-to-zero.
// Thread rule: any thread. The functions allocate nothing and cannot fail.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "base/reduce_op.h"

namespace rondo {

// destination[i] = left[i] op right[i]
using ReduceFunction = void (*)(std::byte* destination, const std::byte* left, const std::byte* right,
                                std::size_t elements);

// Returns null if CheckPairing refuses the combination, and for user-defined operations, which have no kernel here. For
// kAvg and kPremulSum it returns the sum: the functions below divide and multiply.
ReduceFunction FindReduce(DataType type, ReduceOp op);

// The final step of an average: destination[i] = (left[i] + right[i]) / world_size. The sum of integers wraps, and
// their quotient is rounded towards zero. A 16-bit float is rounded once, after the division.
// REQUIRES: world_size >= 1; the type is not kBool.
void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int world_size);

// The final step of an average whose sum is complete: destination[i] = source[i] / world_size.
// REQUIRES: world_size >= 1; the type is not kBool.
void DivideBy(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int world_size);

// The factor by which each input of an average of `type` is multiplied before it is summed. It is the largest power of
// two with AverageScaleOf() * world_size <= 1, so that no sum of world_size inputs overflows the type. The product is
// exact except for numbers below world_size times the smallest number of full precision (1e-38 in float32 and bfloat16,
// 2e-308 in float64), which may lose their lowest bits. Returns 1 for types whose averages are summed in a wider type
// (AverageTypeOf), and if world_size is 1.
double AverageScaleOf(DataType type, int world_size);
struct ScaleFactors {
  double left = 1.0, right = 1.0;
};

// SumScaled: destination[i] = left[i] * factors.left + right[i] * factors.right. SumScaledAndDivide also divides that
// by `divisor`. Products, sum and quotient are each rounded to the type in which they are computed, and the result is
// rounded to `type`.
// REQUIRES: IsFloating(type).
void SumScaled(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
               DataType type, ScaleFactors factors);
void SumScaledAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, ScaleFactors factors, double divisor);

// Scales an operand of a pre-multiplied sum: destination[i] = source[i] * factor. The factor is first rounded to the
// type in which the product is computed: float64 for kFloat64, otherwise float32.
// REQUIRES: IsFloating(type).
void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor);

// Convert from `type` to its wider type, WideTypeOf(type), and back. Widening is exact. Narrowing rounds 16-bit floats
// once, to nearest even, or to infinity if they are too large; of an integer it keeps the lowest bits. NaNs become
// canonical in both directions. Unlike elsewhere, destination and source must not overlap at all. REQUIRES:
// WideTypeOf(type) != type.
void Widen(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void Narrow(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

}  // namespace rondo
