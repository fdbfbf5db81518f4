// The arithmetic of device reductions on one element, in C++ that nvcc and the host's compiler both understand.
//
// The bits are those of collectives/kernels/reduce.h, whose comment says what they are: 16-bit floats are computed in
// float32 and rounded after each operation, NaNs are canonical, -0 is below +0, integers wrap. Averages are those of
// AverageTypeOf (base/dtype.h): integers and float16 are summed in a wider type, and narrowed once, at the end; other
// floats are scaled by AverageScaleOf (collectives/kernels/reduce.h) as they are loaded. Compile without contraction
// (nvcc -fmad=false), which would round a product and a sum as one.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "base/reduce_op.h"
#include "cuda/kernels/host_device.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace rondo::cuda {

// ---- elements: how a type is kept in memory, and what it is computed in ----

template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static RONDO_HOST_DEVICE T Load(T value) { return value; }
  static RONDO_HOST_DEVICE T Store(T value) { return value; }
};

template <typename T>
RONDO_HOST_DEVICE T BitsTo(std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(bits);
  } else {
    return __longlong_as_double(static_cast<long long>(bits));
  }
#else
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

template <typename T>
RONDO_HOST_DEVICE bool IsNan(T value) {
#ifdef __CUDA_ARCH__
  return isnan(value);
#else
  return __builtin_isnan(value);
#endif
}

RONDO_HOST_DEVICE bool SignBit(float value) {
#ifdef __CUDA_ARCH__
  return (__float_as_uint(value) >> 31) != 0;
#else
  return __builtin_signbit(value);
#endif
}
RONDO_HOST_DEVICE bool SignBit(double value) {
#ifdef __CUDA_ARCH__
  return __double_as_longlong(value) < 0;
#else
  return __builtin_signbit(value);
#endif
}

template <typename T, bool kAtAll = true>
RONDO_HOST_DEVICE T Canonical(T value) {
  if constexpr (!kAtAll) {
    return value;
  } else if constexpr (sizeof(T) == 4) {
    return IsNan(value) ? BitsTo<float>(kNanFloat32) : value;
  } else {
    return IsNan(value) ? BitsTo<double>(kNanFloat64) : value;
  }
}

struct Float16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static RONDO_HOST_DEVICE float Load(std::uint16_t half) {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(half));
#else
    return FromFloat16(half);
#endif
  }
  static RONDO_HOST_DEVICE std::uint16_t Store(float value) {
#ifdef __CUDA_ARCH__
    return IsNan(value) ? kNanFloat16 : __half_as_ushort(__float2half_rn(value));
#else
    return ToFloat16(value);
#endif
  }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static RONDO_HOST_DEVICE float Load(std::uint16_t bfloat) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(static_cast<unsigned>(bfloat) << 16);
#else
    return FromBfloat16(bfloat);
#endif
  }
  static RONDO_HOST_DEVICE std::uint16_t Store(float value) {
#ifdef __CUDA_ARCH__
    return IsNan(value) ? kNanBfloat16 : __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    return ToBfloat16(value);
#endif
  }
};

struct Bool {
  using Stored = std::uint8_t;
  using Computed = bool;
  static RONDO_HOST_DEVICE bool Load(std::uint8_t byte) { return byte != 0; }
  static RONDO_HOST_DEVICE std::uint8_t Store(bool value) { return value ? 1 : 0; }
};

// ---- operations ----

// Of integers modulo 2^bits: as unsigned ones, and those of less than 32 bits without promotion to int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// kCanonical: NaNs become canonical here, and not when the result is stored.
template <ReduceOp kOp, typename T, bool kCanonical = true>
RONDO_HOST_DEVICE T Combine(T left, T right) {
  if constexpr (std::is_same_v<T, bool>) {
    if constexpr (kOp == ReduceOp::kMin || kOp == ReduceOp::kBand) return left && right;
    if constexpr (kOp == ReduceOp::kMax || kOp == ReduceOp::kBor) return left || right;
    return left != right;
  } else if constexpr (std::is_integral_v<T>) {
    using U = Wrapping<T>;
    if constexpr (kOp == ReduceOp::kSum) return static_cast<T>(static_cast<U>(left) + static_cast<U>(right));
    if constexpr (kOp == ReduceOp::kProd) return static_cast<T>(static_cast<U>(left) * static_cast<U>(right));
    if constexpr (kOp == ReduceOp::kMin) return right < left ? right : left;
    if constexpr (kOp == ReduceOp::kMax) return left < right ? right : left;
    if constexpr (kOp == ReduceOp::kBand) return static_cast<T>(left & right);
    if constexpr (kOp == ReduceOp::kBor) return static_cast<T>(left | right);
    if constexpr (kOp == ReduceOp::kBxor) return static_cast<T>(left ^ right);
  } else {
    if constexpr (kOp == ReduceOp::kSum || kOp == ReduceOp::kPremulSum) return Canonical<T, kCanonical>(left + right);
    if constexpr (kOp == ReduceOp::kProd) return Canonical<T, kCanonical>(left * right);
    if constexpr (kOp == ReduceOp::kMin || kOp == ReduceOp::kMax) {
      if (IsNan(left) || IsNan(right)) return Canonical<T>(left + right);
      constexpr bool kMinimum = kOp == ReduceOp::kMin;
      if (left == right) return SignBit(left) == kMinimum ? left : right;
      return (left < right) == kMinimum ? left : right;
    }
  }
}

// ---- averages: division by the world's size, to the bits of `/`, which on GPUs is many instructions ----

RONDO_HOST_DEVICE float MultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RONDO_HOST_DEVICE double MultiplyAdd(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Of floats: a product with the reciprocal, put right by what it leaves over (Markstein, "Computation of elementary
// functions on the IBM RISC System/6000 processor", 1990). What is then rounded is off by 2^-22 units in the last place
// at most; a quotient by `by` that is no float is at least 1 / (2 by) of them from where rounding turns: enough to
// 2^20. Half way it lies only where floats grow sparse, below the least of full precision.
template <typename T, typename = void>
struct Divisor {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by)
      : by_(static_cast<T>(by)), reciprocal_(T{1} / by_), wide_by_(by), wide_reciprocal_(1.0 / by) {}
  // kMayBeTiny: other values than zero may be.
  template <bool kMayBeTiny = true>
  RONDO_HOST_DEVICE T Divide(T value) const {
    constexpr T kLeast = 2 * std::numeric_limits<T>::min();
    const T product = value * reciprocal_;
    const T size = product < 0 ? -product : product;
    if (size >= kLeast && size <= std::numeric_limits<T>::max())
      return MultiplyAdd(MultiplyAdd(-product, by_, value), reciprocal_, product);
    if (!kMayBeTiny || value == 0 || !(size < kLeast)) return product;
    if constexpr (sizeof(T) == 8) {
      return value / by_;
    } else {  // to where half way is a double, and so exact
      const auto wide = static_cast<double>(value);
      const double near = wide * wide_reciprocal_;
      return static_cast<T>(MultiplyAdd(MultiplyAdd(-near, wide_by_, wide), wide_reciprocal_, near));
    }
  }

 private:
  T by_, reciprocal_;
  double wide_by_, wide_reciprocal_;
};

// Of integers; none of less than 32 bits is divided.
template <typename T>
struct Divisor<T, std::enable_if_t<std::is_integral_v<T>>> {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by) : by_(static_cast<T>(by)) {}
  RONDO_HOST_DEVICE T Divide(T value) const { return static_cast<T>(value / by_); }

 private:
  T by_;
};

// Of averages whose operands are scaled (AverageScaleOf): of the scaled sum.
template <typename T>
struct ScaledDivisor {
  explicit RONDO_HOST_DEVICE ScaledDivisor(std::int32_t by) : plain_(by), scale_(1) {
    while (scale_ * static_cast<T>(by) > 1) scale_ /= 2;
    up_ = 1 / scale_;
    scaled_ = scale_ * static_cast<T>(by);
  }
  RONDO_HOST_DEVICE T scale() const { return scale_; }
  RONDO_HOST_DEVICE T Divide(T value) const {
    constexpr T kHasRoom = std::numeric_limits<T>::max() / (1 << 20);  // `up_` is 2^17 at most
    const T size = value < 0 ? -value : value;
    return size <= kHasRoom ? plain_.Divide(value * up_) : value / scaled_;
  }

 private:
  Divisor<T> plain_;
  T scale_, up_, scaled_;
};

// A sum of 64-bit integers: two's complement, in two words.
struct Sum128 {
  std::uint64_t low = 0, high = 0;
};

// Word by word, as on paper; of the quotient the lower 64 bits.
template <>
struct Divisor<Sum128> {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by) : by_(static_cast<std::uint64_t>(by)) {}
  RONDO_HOST_DEVICE Sum128 Divide(Sum128 value) const {
    const bool is_negative = value.high >> 63 != 0;
    if (is_negative) value = Negated(value);
    constexpr std::uint64_t kLowHalf = 0xFFFF'FFFF;
    const std::uint64_t upper = (value.high % by_) << 32 | value.low >> 32;
    const std::uint64_t lower = (upper % by_) << 32 | (value.low & kLowHalf);
    const Sum128 quotient{upper / by_ << 32 | lower / by_, 0};
    return is_negative ? Negated(quotient) : quotient;
  }

 private:
  static RONDO_HOST_DEVICE Sum128 Negated(Sum128 value) {
    const std::uint64_t low = ~value.low + 1;
    return {low, ~value.high + (low == 0 ? 1 : 0)};
  }
  std::uint64_t by_;
};

struct NoDivisor {  // of what is no average
  explicit RONDO_HOST_DEVICE NoDivisor(std::int32_t) {}
};

// The whole of one element: T says how it is kept and computed. Averages are below.
template <typename T, ReduceOp kOp, typename = void>
struct Fold {
  using Element = T;
  static constexpr ReduceOp kOperation = kOp;
  using Stored = typename T::Stored;
  using Computed = typename T::Computed;
  using Partial = Stored;  // how the fold of some sources is kept
  using By = NoDivisor;
  static constexpr bool kStoredAsComputed = std::is_same_v<Stored, Computed>;  // else storing makes NaNs canonical

  // What a source brings; of a pre-multiplied sum its product, rounded to how it is kept.
  static RONDO_HOST_DEVICE Stored First(Stored value, double scale, const By&) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      return T::Store(Canonical<Computed, kStoredAsComputed>(T::Load(value) * static_cast<Computed>(scale)));
    } else {
      return value;
    }
  }
  static RONDO_HOST_DEVICE Stored Next(Stored left, Stored right) {
    return T::Store(Combine<kOp, Computed, kStoredAsComputed>(T::Load(left), T::Load(right)));
  }
  // The last one; of an average the sum is divided before it is rounded.
  static RONDO_HOST_DEVICE Stored Last(Stored left, Stored right, const By&) { return Next(left, right); }
  // Of one source alone, the only one that is not combined.
  static RONDO_HOST_DEVICE Stored Only(Stored value, const By&) { return value; }
  // Of the fold of all sources.
  static RONDO_HOST_DEVICE Stored Finish(Partial value) { return value; }
};

// Averages that are summed in a wider type: what that is, how an element becomes one, and how two are added.
template <typename T>
inline constexpr bool kIsWidened = std::is_same_v<T, Float16> || std::is_integral_v<typename T::Computed>;

template <typename S>
using WideSum = std::conditional_t<
    sizeof(S) == 8, Sum128,
    std::conditional_t<sizeof(S) == 4, std::conditional_t<std::is_signed_v<S>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<S>, std::int32_t, std::uint32_t>>>;

template <typename Sum>
RONDO_HOST_DEVICE Sum Add(Sum left, Sum right) {
  return left + right;
}
RONDO_HOST_DEVICE Sum128 Add(Sum128 left, Sum128 right) {
  const std::uint64_t low = left.low + right.low;
  return {low, left.high + right.high + (low < left.low ? 1 : 0)};
}

template <typename T>
struct Fold<T, ReduceOp::kAvg, std::enable_if_t<kIsWidened<T>>> {
  using Element = T;
  static constexpr ReduceOp kOperation = ReduceOp::kAvg;
  using Stored = typename T::Stored;
  static constexpr bool kIsFloat = std::is_same_v<T, Float16>;
  using Partial = std::conditional_t<kIsFloat, float, WideSum<Stored>>;
  using By = Divisor<Partial>;

  static RONDO_HOST_DEVICE Partial First(Stored value, double, const By&) {
    if constexpr (kIsFloat) {
      return T::Load(value);
    } else if constexpr (sizeof(Stored) == 8) {
      const bool is_negative = std::is_signed_v<Stored> && value >> 63 != 0;
      return {static_cast<std::uint64_t>(value), is_negative ? ~std::uint64_t{0} : 0};
    } else {
      return static_cast<Partial>(value);
    }
  }
  static RONDO_HOST_DEVICE Partial Next(Partial left, Partial right) { return Add(left, right); }
  static RONDO_HOST_DEVICE Partial Last(Partial left, Partial right, const By& by) {
    return Only(Add(left, right), by);
  }
  static RONDO_HOST_DEVICE Partial Only(Partial value, const By& by) { return by.Divide(value); }
  static RONDO_HOST_DEVICE Stored Finish(Partial value) {
    if constexpr (kIsFloat) {
      return T::Store(value);
    } else if constexpr (sizeof(Stored) == 8) {
      return static_cast<Stored>(value.low);
    } else {
      return static_cast<Stored>(value);
    }
  }
};

// Averages that are scaled: what is kept is what is computed, rounded to how it would be stored.
template <typename T>
struct Fold<T, ReduceOp::kAvg, std::enable_if_t<!kIsWidened<T>>> {
  using Element = T;
  static constexpr ReduceOp kOperation = ReduceOp::kAvg;
  using Stored = typename T::Stored;
  using Partial = typename T::Computed;
  using By = ScaledDivisor<Partial>;

  static RONDO_HOST_DEVICE Partial First(Stored value, double, const By& by) { return T::Load(value) * by.scale(); }
  static RONDO_HOST_DEVICE Partial Next(Partial left, Partial right) {
    if constexpr (std::is_same_v<Stored, Partial>) {
      return left + right;
    } else {
      return T::Load(T::Store(left + right));
    }
  }
  static RONDO_HOST_DEVICE Partial Last(Partial left, Partial right, const By& by) { return Only(left + right, by); }
  static RONDO_HOST_DEVICE Partial Only(Partial value, const By& by) { return by.Divide(value); }
  static RONDO_HOST_DEVICE Stored Finish(Partial value) { return T::Store(Canonical<Partial>(value)); }
};

}  // namespace rondo::cuda
