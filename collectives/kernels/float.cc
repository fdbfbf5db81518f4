// float32 and float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/float.cc"
// The order of these includes matters.
// clang-format off
#include "collectives/kernels/targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "collectives/kernels/families.h"
#include "collectives/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels {
namespace HWY_NAMESPACE {
namespace {

// Equal operands have equal bits, except -0 and +0. For these the minimum combines the sign bits of both by OR, the
// maximum by AND.
struct FloatMin {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    const auto value = hn::IfThenElse(hn::Eq(left, right), hn::Or(left, right), hn::Min(left, right));
    return hn::IfThenElse(hn::Or(hn::IsNaN(left), hn::IsNaN(right)), Nan(d), value);
  }
};

struct FloatMax {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    const auto value = hn::IfThenElse(hn::Eq(left, right), hn::And(left, right), hn::Max(left, right));
    return hn::IfThenElse(hn::Or(hn::IsNaN(left), hn::IsNaN(right)), Nan(d), value);
  }
};

template <typename T, class Op>
void Reduce(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements) {
  Walk(hn::ScalableTag<T>(), destination, left, right, elements, Op());
}

template <typename T>
ReduceFunction FindOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return Reduce<T, FloatSum>;
    case ReduceOp::kProd: return Reduce<T, FloatProd>;
    case ReduceOp::kMin: return Reduce<T, FloatMin>;
    case ReduceOp::kMax: return Reduce<T, FloatMax>;
    default: return nullptr;
  }
}

ReduceFunction Find(DataType type, ReduceOp op) {
  return type == DataType::kFloat64 ? FindOp<double>(op) : FindOp<float>(op);
}

void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int divisor) {
  if (type == DataType::kFloat64) {
    const FloatSumAndDivide<double> op{static_cast<double>(divisor)};
    Walk(hn::ScalableTag<double>(), destination, left, right, elements, op);
  } else {
    const FloatSumAndDivide<float> op{static_cast<float>(divisor)};
    Walk(hn::ScalableTag<float>(), destination, left, right, elements, op);
  }
}

void Divide(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor) {
  if (type == DataType::kFloat64) {
    Walk(hn::ScalableTag<double>(), destination, source, elements, FloatDivide<double>{static_cast<double>(divisor)});
  } else {
    Walk(hn::ScalableTag<float>(), destination, source, elements, FloatDivide<float>{static_cast<float>(divisor)});
  }
}

void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor) {
  if (type == DataType::kFloat64) {
    Walk(hn::ScalableTag<double>(), destination, source, elements, FloatScale<double>{factor});
  } else {
    Walk(hn::ScalableTag<float>(), destination, source, elements, FloatScale<float>{static_cast<float>(factor)});
  }
}

void SumScaled(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
               DataType type, ScaleFactors factors) {
  if (type == DataType::kFloat64) {
    Walk(hn::ScalableTag<double>(), destination, left, right, elements, ScaledBy<double>(factors));
  } else {
    Walk(hn::ScalableTag<float>(), destination, left, right, elements, ScaledBy<float>(factors));
  }
}

void SumScaledAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, ScaleFactors factors, double divisor) {
  if (type == DataType::kFloat64) {
    const FloatSumScaledAndDivide<double> op{ScaledBy<double>(factors), divisor};
    Walk(hn::ScalableTag<double>(), destination, left, right, elements, op);
  } else {
    const FloatSumScaledAndDivide<float> op{ScaledBy<float>(factors), static_cast<float>(divisor)};
    Walk(hn::ScalableTag<float>(), destination, left, right, elements, op);
  }
}

Family Functions() { return {Find, SumAndDivide, Divide, Scale, SumScaled, SumScaledAndDivide}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rondo::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
namespace {

HWY_EXPORT(Functions);

}  // namespace

Family FloatFamily() { return HWY_DYNAMIC_DISPATCH(Functions)(); }

}  // namespace rondo::kernels
#endif  // HWY_ONCE
