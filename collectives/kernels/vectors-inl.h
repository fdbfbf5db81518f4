// Code that all families of kernels share: the loops over memory, and the canonical NaN. Compiled once per instruction
// set, so the include guard is Highway's toggle.
#if defined(RONDO_COLLECTIVES_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_COLLECTIVES_KERNELS_VECTORS_INL_H_
#undef RONDO_COLLECTIVES_KERNELS_VECTORS_INL_H_
#else
#define RONDO_COLLECTIVES_KERNELS_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "collectives/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Memory has any alignment, and the compiler must not assume its type. So vectors are loaded and stored as bytes.
template <class D>
HWY_INLINE hn::VFromD<D> LoadBytes(D d, const std::uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR  // a vector is one element, which cannot be cast to bytes
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof lane);
  return hn::Set(d, lane);
#else
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D>(), from));
#endif
}

template <class D>
HWY_INLINE void StoreBytes(D, hn::VFromD<D> value, std::uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> lane = hn::GetLane(value);
  std::memcpy(to, &lane, sizeof lane);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, value), bytes, to);
#endif
}

// Load and store the first `bytes` bytes of a vector: at least one and not all. They are used for the end of a buffer,
// so that the same instructions compute all elements and give the same bits.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// AVX-512 has masked loads and stores, which do not touch bytes outside the mask. (An array on the stack would be
// slower. It would also crash under AddressSanitizer of GCC 12, whose fake stack ignores an alignment of 64 bytes: GCC
// bug 110027.)
template <class D>
HWY_INLINE hn::VFromD<D> LoadFirst(D d, const std::uint8_t* from, std::size_t bytes) {
  const hn::Repartition<std::uint8_t, D> d8;
  return hn::BitCast(d, hn::MaskedLoad(hn::FirstN(d8, bytes), d8, from));
}

template <class D>
HWY_INLINE void StoreFirst(D, hn::VFromD<D> value, std::uint8_t* to, std::size_t bytes) {
  const hn::Repartition<std::uint8_t, D> d8;
  hn::BlendedStore(hn::BitCast(d8, value), hn::FirstN(d8, bytes), d8, to);
}
#else
template <class D>
HWY_INLINE hn::VFromD<D> LoadFirst(D d, const std::uint8_t* from, std::size_t bytes) {
  std::uint8_t padded[HWY_MAX_BYTES] = {};
  std::memcpy(padded, from, bytes);
  return LoadBytes(d, padded);
}

template <class D>
HWY_INLINE void StoreFirst(D d, hn::VFromD<D> value, std::uint8_t* to, std::size_t bytes) {
  std::uint8_t padded[HWY_MAX_BYTES];
  StoreBytes(d, value, padded);
  std::memcpy(to, padded, bytes);
}
#endif

// destination = op(d, left, right), a vector of `d` at a time.
template <class D, class Op>
HWY_INLINE void Walk(D d, std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                     const Op& op) {
  auto* to = reinterpret_cast<std::uint8_t*>(destination);
  const auto* a = reinterpret_cast<const std::uint8_t*>(left);
  const auto* b = reinterpret_cast<const std::uint8_t*>(right);
  const std::size_t vector_bytes = hn::Lanes(d) * sizeof(hn::TFromD<D>);
  const std::size_t bytes = elements * sizeof(hn::TFromD<D>);
  std::size_t at = 0;
  for (; bytes - at >= vector_bytes; at += vector_bytes)
    StoreBytes(d, op(d, LoadBytes(d, a + at), LoadBytes(d, b + at)), to + at);
  if (at == bytes) return;
  const std::size_t rest = bytes - at;
  StoreFirst(d, op(d, LoadFirst(d, a + at, rest), LoadFirst(d, b + at, rest)), to + at, rest);
}

// destination = op(d, source), a vector of `d` at a time.
template <class D, class Op>
HWY_INLINE void Walk(D d, std::byte* destination, const std::byte* source, std::size_t elements, const Op& op) {
  auto* to = reinterpret_cast<std::uint8_t*>(destination);
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  const std::size_t vector_bytes = hn::Lanes(d) * sizeof(hn::TFromD<D>);
  const std::size_t bytes = elements * sizeof(hn::TFromD<D>);
  std::size_t at = 0;
  for (; bytes - at >= vector_bytes; at += vector_bytes) StoreBytes(d, op(d, LoadBytes(d, from + at)), to + at);
  if (at == bytes) return;
  const std::size_t rest = bytes - at;
  StoreFirst(d, op(d, LoadFirst(d, from + at, rest)), to + at, rest);
}

// The canonical NaN.
template <class D>
HWY_INLINE hn::VFromD<D> Nan(D d) {
  using Bits = hwy::MakeUnsigned<hn::TFromD<D>>;
  constexpr Bits kNan = sizeof(Bits) == 4 ? static_cast<Bits>(kNanFloat32) : static_cast<Bits>(kNanFloat64);
  return hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kNan));
}

// Processors produce different NaNs for inf - inf, and pass on the payload of the first operand. To get the same bits
// everywhere, every NaN is replaced by the canonical one.
template <class D>
HWY_INLINE hn::VFromD<D> CanonicalNan(D d, hn::VFromD<D> value) {
  return hn::IfThenElse(hn::IsNaN(value), Nan(d), value);
}

// Operations on vectors of floats, with the canonical NaN. 16-bit floats use them too, after widening.
struct FloatSum {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return CanonicalNan(d, hn::Add(left, right));
  }
};

struct FloatProd {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return CanonicalNan(d, hn::Mul(left, right));
  }
};

template <typename T>
struct FloatSumAndDivide {
  T divisor;
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return CanonicalNan(d, hn::Div(hn::Add(left, right), hn::Set(d, divisor)));
  }
};

template <typename T>
struct FloatDivide {
  T divisor;
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> source) const {
    return CanonicalNan(d, hn::Div(source, hn::Set(d, divisor)));
  }
};

// Each product is rounded before the sum. An option in BUILD ensures this: it prevents the compiler from contracting a
// product and the sum into one instruction.
template <typename T>
struct FloatSumScaled {
  T left_factor, right_factor;
  template <class D>
  HWY_INLINE hn::VFromD<D> Sum(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return hn::Add(hn::Mul(left, hn::Set(d, left_factor)), hn::Mul(right, hn::Set(d, right_factor)));
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return CanonicalNan(d, Sum(d, left, right));
  }
};

template <typename T>
struct FloatSumScaledAndDivide {
  FloatSumScaled<T> scaled;
  T divisor;
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> left, hn::VFromD<D> right) const {
    return CanonicalNan(d, hn::Div(scaled.Sum(d, left, right), hn::Set(d, divisor)));
  }
};

template <typename T>
FloatSumScaled<T> ScaledBy(ScaleFactors factors) {
  return {static_cast<T>(factors.left), static_cast<T>(factors.right)};
}

template <typename T>
struct FloatScale {
  T factor;
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> source) const {
    return CanonicalNan(d, hn::Mul(source, hn::Set(d, factor)));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rondo::kernels
HWY_AFTER_NAMESPACE();

#endif  // RONDO_COLLECTIVES_KERNELS_VECTORS_INL_H_
