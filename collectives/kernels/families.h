// The families of kernels behind reduce.h, one .cc each; each picks its instruction set at run time.
#pragma once

#include "collectives/kernels/reduce.h"

namespace rondo::kernels {

// All take only pairings that CheckPairing allows, with kAvg and kPremulSum given as kSum.
ReduceFunction FindIntegerReduce(DataType type, ReduceOp op);  // kBool too
ReduceFunction FindFloatReduce(DataType type, ReduceOp op);    // kFloat32, kFloat64
ReduceFunction FindHalfReduce(DataType type, ReduceOp op);     // kFloat16, kBfloat16

void DivideIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);
void SumAndDivideIntegers(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                          DataType type, int divisor);

void DivideFloats(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);
void SumAndDivideFloats(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, int divisor);
void ScaleFloats(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor);

void DivideHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor);
void SumAndDivideHalves(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, int divisor);
void ScaleHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor);
void WidenHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);
void NarrowHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type);

}  // namespace rondo::kernels
