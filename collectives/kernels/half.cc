// float16 and bfloat16: sums and products widen to float32, compute, and round once. min and max need no arithmetic and
// stay in 16 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/half.cc"
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

// Highway's conversions are used only if they are processor instructions (F16C and AVX-512), which round to nearest
// even and keep subnormals. Its portable conversions do not round to nearest even.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define RONDO_HAVE_F16_CONVERSION 1
#else
#define RONDO_HAVE_F16_CONVERSION 0
#endif

using D32 = hn::ScalableTag<float>;
using D16 = hn::Rebind<std::uint16_t, D32>;  // the same number of elements, each of half the size
using V32 = hn::VFromD<D32>;
using V16 = hn::VFromD<D16>;

struct Float16 {
  static constexpr std::uint16_t kNan = kNanFloat16;
  static constexpr std::int16_t kInfinity = 0x7C00;

  static HWY_INLINE V32 Widen(V16 half) {
    const D32 d;
#if RONDO_HAVE_F16_CONVERSION
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D32>(), half));
#else
    // After the fields are shifted into place, the exponent is too small by the difference of the two types' exponent
    // biases. A multiplication corrects this exactly, and normalises subnormals. Infinities and NaNs get the largest
    // exponent explicitly.
    const hn::RebindToUnsigned<D32> du;
    const auto wide = hn::PromoteTo(du, half);
    const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(du, 0x7FFFu)));
    const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
    const auto special = hn::Gt(magnitude, hn::Set(du, (0x7BFFu << 13)));
    const auto infinite = hn::IfThenElseZero(special, hn::Set(du, 0x7F800000u));
    return hn::BitCast(d, hn::Or(sign, hn::Or(finite, infinite)));
#endif
  }

  // REQUIRES: NaNs are canonical.
  static HWY_INLINE V16 Narrow(V32 value) {
#if RONDO_HAVE_F16_CONVERSION
    return hn::BitCast(D16(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D32>(), value));
#else
    const D32 d;
    const hn::RebindToUnsigned<D32> du;
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(du, 0x80000000u)));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    // Normal numbers: subtracts the difference of the two types' exponent biases, and rounds to nearest even by adding
    // just under half, or half if the last kept bit is odd. A carry may increase the exponent, up to infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto rounded =
        hn::Add(hn::Sub(magnitude, hn::Set(du, (127u - 15u) << 23)), hn::Add(odd, hn::Set(du, 0xFFFu)));
    const auto normal = hn::ShiftRight<13>(rounded);
    // Subnormal numbers or zero: the lowest bit of 0.5 + x has the value 2^-24, so the addition rounds.
    const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(du, shifted), hn::Set(du, 0x3F000000u));
    auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), subnormal, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FFFFFu)), hn::Set(du, 0x7C00u), result);
    result = hn::Or(sign, result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7F800000u)), hn::Set(du, std::uint32_t{kNan}), result);
    return hn::TruncateTo(D16(), result);
#endif
  }
};

struct Bfloat16 {
  static constexpr std::uint16_t kNan = kNanBfloat16;
  static constexpr std::int16_t kInfinity = 0x7F80;

  static HWY_INLINE V32 Widen(V16 bfloat) {
    const D32 d;
    const hn::RebindToUnsigned<D32> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bfloat)));
  }

  // REQUIRES: NaNs are canonical. Their low bits are zero, so rounding does not change them.
  static HWY_INLINE V16 Narrow(V32 value) {
    const hn::RebindToUnsigned<D32> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    return hn::TruncateTo(D16(), hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)))));
  }
};

// Applies a float32 operation to 16-bit operands.
template <class Type, class Op>
struct Widened {
  Op op;
  HWY_INLINE V16 operator()(D16, V16 left, V16 right) const {
    return Type::Narrow(op(D32(), Type::Widen(left), Type::Widen(right)));
  }
  HWY_INLINE V16 operator()(D16, V16 source) const { return Type::Narrow(op(D32(), Type::Widen(source))); }
};

// Maps floats to integers that compare in the same order: if the sign is set, the bits of the magnitude are flipped. So
// -0 becomes -1, and +0 becomes 0. The mapping is its own inverse.
template <class D>
HWY_INLINE hn::VFromD<D> Ordered(D d, hn::VFromD<D> bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), hn::Set(d, std::int16_t{0x7FFF})));
}

template <class Type, bool kMinimum>
struct HalfExtreme {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    const auto a = Ordered(d, left);
    const auto b = Ordered(d, right);
    const auto value = Ordered(d, kMinimum ? hn::Min(a, b) : hn::Max(a, b));
    const auto magnitude = hn::Set(d, std::int16_t{0x7FFF});
    const auto largest = hn::Max(hn::And(left, magnitude), hn::And(right, magnitude));
    return hn::IfThenElse(hn::Gt(largest, hn::Set(d, Type::kInfinity)),
                          hn::Set(d, static_cast<std::int16_t>(Type::kNan)), value);
  }
};

template <class Type, class Op>
void ReduceWidened(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements) {
  Walk(D16(), destination, left, right, elements, Widened<Type, Op>());
}

template <class Type, bool kMinimum>
void ReduceExtreme(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements) {
  Walk(hn::ScalableTag<std::int16_t>(), destination, left, right, elements, HalfExtreme<Type, kMinimum>());
}

template <class Type>
ReduceFunction FindOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return ReduceWidened<Type, FloatSum>;
    case ReduceOp::kProd: return ReduceWidened<Type, FloatProd>;
    case ReduceOp::kMin: return ReduceExtreme<Type, true>;
    case ReduceOp::kMax: return ReduceExtreme<Type, false>;
    default: return nullptr;
  }
}

ReduceFunction Find(DataType type, ReduceOp op) {
  return type == DataType::kBfloat16 ? FindOp<Bfloat16>(op) : FindOp<Float16>(op);
}

template <class Type, class Op>
HWY_INLINE void WalkWidened(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                            Op op) {
  Walk(D16(), destination, left, right, elements, Widened<Type, Op>{op});
}

template <class Type, class Op>
HWY_INLINE void WalkWidened(std::byte* destination, const std::byte* source, std::size_t elements, Op op) {
  Walk(D16(), destination, source, elements, Widened<Type, Op>{op});
}

void SumAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                  DataType type, int divisor) {
  const FloatSumAndDivide<float> op{static_cast<float>(divisor)};
  if (type == DataType::kBfloat16) return WalkWidened<Bfloat16>(destination, left, right, elements, op);
  WalkWidened<Float16>(destination, left, right, elements, op);
}

void Divide(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor) {
  const FloatDivide<float> op{static_cast<float>(divisor)};
  if (type == DataType::kBfloat16) return WalkWidened<Bfloat16>(destination, source, elements, op);
  WalkWidened<Float16>(destination, source, elements, op);
}

void Scale(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, double factor) {
  const FloatScale<float> op{static_cast<float>(factor)};
  if (type == DataType::kBfloat16) return WalkWidened<Bfloat16>(destination, source, elements, op);
  WalkWidened<Float16>(destination, source, elements, op);
}

void SumScaled(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
               DataType type, ScaleFactors factors) {
  const FloatSumScaled<float> op = ScaledBy<float>(factors);
  if (type == DataType::kBfloat16) return WalkWidened<Bfloat16>(destination, left, right, elements, op);
  WalkWidened<Float16>(destination, left, right, elements, op);
}

void SumScaledAndDivide(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                        DataType type, ScaleFactors factors, double divisor) {
  const FloatSumScaledAndDivide<float> op{ScaledBy<float>(factors), static_cast<float>(divisor)};
  if (type == DataType::kBfloat16) return WalkWidened<Bfloat16>(destination, left, right, elements, op);
  WalkWidened<Float16>(destination, left, right, elements, op);
}

// Convert between a 16-bit type and float32, a vector of float32 at a time.
template <class Type>
void WidenAll(std::byte* destination, const std::byte* source, std::size_t elements) {
  const D16 d16;
  const D32 d32;
  auto* to = reinterpret_cast<std::uint8_t*>(destination);
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  const std::size_t lanes = hn::Lanes(d32);
  for (; elements >= lanes; elements -= lanes, from += 2 * lanes, to += 4 * lanes)
    StoreBytes(d32, CanonicalNan(d32, Type::Widen(LoadBytes(d16, from))), to);
  if (elements == 0) return;
  StoreFirst(d32, CanonicalNan(d32, Type::Widen(LoadFirst(d16, from, 2 * elements))), to, 4 * elements);
}

template <class Type>
void NarrowAll(std::byte* destination, const std::byte* source, std::size_t elements) {
  const D16 d16;
  const D32 d32;
  auto* to = reinterpret_cast<std::uint8_t*>(destination);
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  const std::size_t lanes = hn::Lanes(d32);
  for (; elements >= lanes; elements -= lanes, from += 4 * lanes, to += 2 * lanes)
    StoreBytes(d16, Type::Narrow(CanonicalNan(d32, LoadBytes(d32, from))), to);
  if (elements == 0) return;
  StoreFirst(d16, Type::Narrow(CanonicalNan(d32, LoadFirst(d32, from, 4 * elements))), to, 2 * elements);
}

void Widen(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  if (type == DataType::kBfloat16) return WidenAll<Bfloat16>(destination, source, elements);
  WidenAll<Float16>(destination, source, elements);
}

void Narrow(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  if (type == DataType::kBfloat16) return NarrowAll<Bfloat16>(destination, source, elements);
  NarrowAll<Float16>(destination, source, elements);
}

Family Functions() { return {Find, SumAndDivide, Divide, Scale, SumScaled, SumScaledAndDivide}; }

#undef RONDO_HAVE_F16_CONVERSION

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rondo::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {
namespace {

HWY_EXPORT(Functions);
HWY_EXPORT(Widen);
HWY_EXPORT(Narrow);

}  // namespace

Family HalfFamily() { return HWY_DYNAMIC_DISPATCH(Functions)(); }

void WidenHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  HWY_DYNAMIC_DISPATCH(Widen)(destination, source, elements, type);
}

void NarrowHalves(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  HWY_DYNAMIC_DISPATCH(Narrow)(destination, source, elements, type);
}

}  // namespace rondo::kernels
#endif  // HWY_ONCE
