#include "collectives/kernels/reduce.h"

#include "base/check.h"
#include "collectives/kernels/families.h"

namespace rondo {
namespace {

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

kernels::Family FamilyOf(DataType type) {
  if (IsHalf(type)) return kernels::HalfFamily();
  return IsFloating(type) ? kernels::FloatFamily() : kernels::IntegerFamily();
}

}  // namespace

ReduceFunction FindReduce(DataType type, ReduceOp op) {
  if (IsUserDefined(op) || !CheckPairing(type, op)) return nullptr;
  if (op == ReduceOp::kAvg || op == ReduceOp::kPremulSum) op = ReduceOp::kSum;
  if (type == kInt128) return op == ReduceOp::kSum ? kernels::SumInt128 : nullptr;
  return FamilyOf(type).find_reduce(type, op);
}

void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int world_size) {
  RONDO_CHECK(world_size >= 1 && type != DataType::kBool, "average of {} over {} ranks", Name(type), world_size);
  FamilyOf(type).sum_and_divide(destination, left, right, elements, type, world_size);
}

void DivideBy(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int world_size) {
  RONDO_CHECK(world_size >= 1 && type != DataType::kBool, "average of {} over {} ranks", Name(type), world_size);
  FamilyOf(type).divide(destination, source, elements, type, world_size);
}

double AverageScaleOf(DataType type, int world_size) {
  if (type != DataType::kBfloat16 && type != DataType::kFloat32 && type != DataType::kFloat64) return 1.0;
  double scale = 1.0;
  while (scale * world_size > 1.0) scale /= 2;
  return scale;
}

void SumScaled(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
               DataType type, ScaleFactors factors) {
  RONDO_CHECK(IsFloating(type), "a scaled sum of {}", Name(type));
  FamilyOf(type).sum_scaled(destination, left, right, elements, type, factors);
}

void SumScaledAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, ScaleFactors factors, double divisor) {
  RONDO_CHECK(IsFloating(type), "a scaled sum of {}", Name(type));
  FamilyOf(type).sum_scaled_and_divide(destination, left, right, elements, type, factors, divisor);
}

void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor) {
  RONDO_CHECK(IsFloating(type), "a pre-multiplied sum of {}", Name(type));
  FamilyOf(type).scale(destination, source, elements, type, factor);
}

void Widen(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  RONDO_CHECK(WideTypeOf(type) != type, "{} has no wider form", Name(type));
  if (IsHalf(type)) return kernels::WidenHalves(destination, source, elements, type);
  kernels::WidenIntegers(destination, source, elements, type);
}

void Narrow(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  RONDO_CHECK(WideTypeOf(type) != type, "{} has no wider form", Name(type));
  if (IsHalf(type)) return kernels::NarrowHalves(destination, source, elements, type);
  kernels::NarrowIntegers(destination, source, elements, type);
}

}  // namespace rondo
