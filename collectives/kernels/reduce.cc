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

void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor) {
  RONDO_CHECK(IsFloating(type), "a pre-multiplied sum of {}", Name(type));
  FamilyOf(type).scale(destination, source, elements, type, factor);
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
