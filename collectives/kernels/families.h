// The families of kernels behind reduce.h, one .cc each.
#pragma once

#include "collectives/kernels/reduce.h"

namespace rondo::kernels {

// What is done to the elements of some types, as reduce.h describes it. All take only pairings that CheckPairing
// allows, with kAvg and kPremulSum given as kSum.
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

// With the functions for the best instruction set of this processor.
Family IntegerFamily();  // kBool too, though without averages; none scales (null)
Family FloatFamily();    // kFloat32, kFloat64
Family HalfFamily();     // kFloat16, kBfloat16

// The integers' averages, the same on every processor; kInt128 too.
void SumAndDivideIntegers(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                          DataType type, int divisor);
void DivideIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);

// Sums of kInt128.
void SumInt128(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements);

// Between integers and their wider types, as Widen and Narrow of reduce.h.
void WidenIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void NarrowIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

// Between 16-bit floats and float32, as Widen and Narrow of reduce.h.
void WidenHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void NarrowHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

}  // namespace rondo::kernels
