// Integers of all sizes, and bool.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/integer.cc"
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

struct Sum {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(left, right);
  }
};

struct Prod {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()([[maybe_unused]] D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    if constexpr (sizeof(hn::TFromD<D>) > 1) {
      return hn::Mul(left, right);
    } else {
#if HWY_TARGET == HWY_SCALAR
      return hn::Set(d, static_cast<hn::TFromD<D>>(hn::GetLane(left) * hn::GetLane(right)));
#else
      // Processors have no multiplication of bytes, so even and odd bytes are multiplied separately, in 16 bits.
      const hn::Repartition<std::uint16_t, D> wide;
      const auto a = hn::BitCast(wide, left);
      const auto b = hn::BitCast(wide, right);
      const auto even = hn::And(hn::Mul(a, b), hn::Set(wide, 0x00FF));
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a), hn::ShiftRight<8>(b)));
      return hn::BitCast(d, hn::Or(even, odd));
#endif
    }
  }
};

struct Minimum {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Min(left, right);
  }
};

struct Maximum {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Max(left, right);
  }
};

struct BitAnd {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::And(left, right);
  }
};

struct BitOr {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Or(left, right);
  }
};

struct BitXor {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Xor(left, right);
  }
};

// A bitwise operation on truth values: every byte other than 0 becomes 1 first.
template <class Op>
struct Logical {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    const auto one = hn::Set(d, std::uint8_t{1});
    return Op()(d, hn::Min(left, one), hn::Min(right, one));
  }
};

template <typename T, class Op>
void Reduce(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements) {
  Walk(hn::ScalableTag<T>(), destination, left, right, elements, Op());
}

// Only min and max depend on the sign; all other operations use unsigned types, in which wrapping is defined.
template <typename T>
ReduceFunction FindOp(ReduceOp op) {
  using Unsigned = hwy::MakeUnsigned<T>;
  switch (op) {
    case ReduceOp::kSum: return Reduce<Unsigned, Sum>;
    case ReduceOp::kProd: return Reduce<Unsigned, Prod>;
    case ReduceOp::kMin: return Reduce<T, Minimum>;
    case ReduceOp::kMax: return Reduce<T, Maximum>;
    case ReduceOp::kBand: return Reduce<Unsigned, BitAnd>;
    case ReduceOp::kBor: return Reduce<Unsigned, BitOr>;
    case ReduceOp::kBxor: return Reduce<Unsigned, BitXor>;
    default: return nullptr;
  }
}

ReduceFunction FindBool(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
    case ReduceOp::kBand: return Reduce<std::uint8_t, Logical<BitAnd>>;
    case ReduceOp::kMax:
    case ReduceOp::kBor: return Reduce<std::uint8_t, Logical<BitOr>>;
    case ReduceOp::kBxor: return Reduce<std::uint8_t, Logical<BitXor>>;
    default: return nullptr;
  }
}

ReduceFunction Find(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8: return FindOp<std::int8_t>(op);
    case DataType::kUint8: return FindOp<std::uint8_t>(op);
    case DataType::kInt32: return FindOp<std::int32_t>(op);
    case DataType::kUint32: return FindOp<std::uint32_t>(op);
    case DataType::kInt64: return FindOp<std::int64_t>(op);
    case DataType::kUint64: return FindOp<std::uint64_t>(op);
    case DataType::kBool: return FindBool(op);
    default: return nullptr;
  }
}

Family Functions() { return {Find, SumAndDivideIntegers, DivideIntegers, nullptr, nullptr, nullptr}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rondo::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
namespace {

HWY_EXPORT(Functions);

}  // namespace

Family IntegerFamily() { return HWY_DYNAMIC_DISPATCH(Functions)(); }

}  // namespace rondo::kernels
#endif  // HWY_ONCE
