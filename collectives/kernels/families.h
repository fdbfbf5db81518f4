// The families of kernels behind reduce.h. Each has a .cc file.
#pragma once

#include "collectives/kernels/reduce.h"

namespace rondo::kernels {

// The kernels of a family of types, as described in reduce.h. They accept only combinations that CheckPairing allows;
// kAvg and kPremulSum are passed as kSum.
struct Family {
  ReduceFunction (*find_reduce)(DataType type, ReduceOp op);
  void (*sum_and_divide)(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                         DataType type, int divisor);
  void (*divide)(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);
  void (*scale)(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor);
  void (*sum_scaled)(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                     DataType type, ScaleFactors factors);
  void (*sum_scaled_and_divide)(std::byte* destination, const std::byte* left, const std::byte* right,
                                std::size_t elements, DataType type, ScaleFactors factors, double divisor);
};

// Each returns the functions for the best instruction set of this processor.
Family IntegerFamily();  // integers and kBool; the functions that scale are null, and kBool has no averages
Family FloatFamily();    // kFloat32, kFloat64
Family HalfFamily();     // kFloat16, kBfloat16

// Averages of integers, including kInt128. These functions are compiled once, not per instruction set.
void SumAndDivideIntegers(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                          DataType type, int divisor);
void DivideIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);

// Sums of kInt128.
void SumInt128(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements);

// Convert between integers and their wider types, as Widen and Narrow of reduce.h.
void WidenIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void NarrowIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

// Convert between 16-bit floats and float32, as Widen and Narrow of reduce.h.
void WidenHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void NarrowHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

}  // namespace rondo::kernels
