#include "collectives/kernels/reduce.h"

#include "base/check.h"
#include "collectives/kernels/families.h"

namespace rondo {
namespace {

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

}  // namespace

ReduceFunction FindReduce(DataType type, ReduceOp op) {
  if (IsUserDefined(op) || !CheckPairing(type, op)) return nullptr;
  if (op == ReduceOp::kAvg || op == ReduceOp::kPremulSum) op = ReduceOp::kSum;
  if (IsHalf(type)) return kernels::FindHalfReduce(type, op);
  if (IsFloating(type)) return kernels::FindFloatReduce(type, op);
  return kernels::FindIntegerReduce(type, op);
}

void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int world_size) {
  RONDO_CHECK(world_size >= 1 && type != DataType::kBool, "average of {} over {} ranks", Name(type), world_size);
  if (IsHalf(type)) return kernels::SumAndDivideHalves(destination, left, right, elements, type, world_size);
  if (IsFloating(type)) return kernels::SumAndDivideFloats(destination, left, right, elements, type, world_size);
  kernels::SumAndDivideIntegers(destination, left, right, elements, type, world_size);
}

void DivideBy(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int world_size) {
  RONDO_CHECK(world_size >= 1 && type != DataType::kBool, "average of {} over {} ranks", Name(type), world_size);
  if (IsHalf(type)) return kernels::DivideHalves(destination, source, elements, type, world_size);
  if (IsFloating(type)) return kernels::DivideFloats(destination, source, elements, type, world_size);
  kernels::DivideIntegers(destination, source, elements, type, world_size);
}

void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor) {
  RONDO_CHECK(IsFloating(type), "a pre-multiplied sum of {}", Name(type));
  if (IsHalf(type)) return kernels::ScaleHalves(destination, source, elements, type, factor);
  kernels::ScaleFloats(destination, source, elements, type, factor);
}

void Widen(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  RONDO_CHECK(IsHalf(type), "{} has no wider form", Name(type));
  kernels::WidenHalves(destination, source, elements, type);
}

void Narrow(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  RONDO_CHECK(IsHalf(type), "{} has no wider form", Name(type));
  kernels::NarrowHalves(destination, source, elements, type);
}

}  // namespace rondo
