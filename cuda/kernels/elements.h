// The arithmetic of device reductions on one element, in C++ that both nvcc and the host's compiler compile.
//
// Results are bitwise equal to those of collectives/kernels/reduce.h, which defines them: 16-bit floats are computed in
// float32 and rounded after each operation, NaNs are canonical, -0 is below +0, integers wrap. For averages see
// AverageTypeOf (base/dtype.h): integers and float16 are summed in a wider type and narrowed once, at the end. Other
// floats are scaled by AverageScaleOf (collectives/kernels/reduce.h) when they are loaded. This code must be compiled
// without contraction (nvcc -fmad=false), which would round a product and a sum together only once.
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

// ---- elements: how a type is stored in memory, and in which type it is computed ----

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

// The unsigned type in which integers are added and multiplied modulo 2^bits. It avoids the promotion of small types to
// int, in which overflow is undefined.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// kCanonical: Combine makes NaNs canonical. If false, that happens when the result is stored.
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

// ---- averages: division by the world size. The result equals that of `/`, which takes many instructions on GPUs. ----

RONDO_HOST_DEVICE float MultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RONDO_HOST_DEVICE double MultiplyAdd(double a, double b, double c) { return __builtin_fma(a, b, c); }

// For floats: multiplies by the reciprocal and corrects the product by its remainder (Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990). Before the final rounding the error is at most
// 2^-22 units in the last place. A quotient by `by` that is not a float is at least 1 / (2 by) such units away from the
// next rounding boundary. So the result is correct for `by` up to 2^20. A quotient can be on a rounding boundary,
// halfway between two floats, only if it is below the smallest float of full precision; Divide treats such values
// separately.
template <typename T, typename = void>
struct Divisor {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by)
      : by_(static_cast<T>(by)), reciprocal_(T{1} / by_), wide_by_(by), wide_reciprocal_(1.0 / by) {}
  // kMayBeTiny: a value other than zero may be so small that its quotient has less than full precision.
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
    } else {  // divides in double, in which a halfway point between two floats is exact
      const auto wide = static_cast<double>(value);
      const double near = wide * wide_reciprocal_;
      return static_cast<T>(MultiplyAdd(MultiplyAdd(-near, wide_by_, wide), wide_reciprocal_, near));
    }
  }

 private:
  T by_, reciprocal_;
  double wide_by_, wide_reciprocal_;
};

// For integers of 32 and 64 bits; smaller ones are never divided.
template <typename T>
struct Divisor<T, std::enable_if_t<std::is_integral_v<T>>> {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by) : by_(static_cast<T>(by)) {}
  RONDO_HOST_DEVICE T Divide(T value) const { return static_cast<T>(value / by_); }

 private:
  T by_;
};

// For averages whose operands are scaled (AverageScaleOf): divides the sum of the scaled operands.
template <typename T>
struct ScaledDivisor {
  explicit RONDO_HOST_DEVICE ScaledDivisor(std::int32_t by) : plain_(by), scale_(1) {
    while (scale_ * static_cast<T>(by) > 1) scale_ /= 2;
    up_ = 1 / scale_;
    scaled_ = scale_ * static_cast<T>(by);
  }
  RONDO_HOST_DEVICE T scale() const { return scale_; }
  RONDO_HOST_DEVICE T Divide(T value) const {
    // up to this size, value * up_ cannot overflow, because up_ is at most 2^17
    constexpr T kHasRoom = std::numeric_limits<T>::max() / (1 << 20);
    const T size = value < 0 ? -value : value;
    return size <= kHasRoom ? plain_.Divide(value * up_) : value / scaled_;
  }

 private:
  Divisor<T> plain_;
  T scale_, up_, scaled_;
};

// A sum of 64-bit integers: a 128-bit two's complement number in two words.
struct Sum128 {
  std::uint64_t low = 0, high = 0;
};

// Long division with digits of 32 bits. The result is the lower 64 bits of the quotient.
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

struct NoDivisor {  // for operations other than averages
  explicit RONDO_HOST_DEVICE NoDivisor(std::int32_t) {}
};

// All steps of the reduction of one element. T says how the element is stored and computed. The specializations for
// averages are below.
template <typename T, ReduceOp kOp, typename = void>
struct Reduction {
  using Element = T;
  static constexpr ReduceOp kOperation = kOp;
  using Stored = typename T::Stored;
  using Computed = typename T::Computed;
  using Partial = Stored;  // type of the result for the sources so far
  using By = NoDivisor;
  static constexpr bool kStoredAsComputed = std::is_same_v<Stored, Computed>;  // if false, Store makes NaNs canonical

  // The operand of a source. For a pre-multiplied sum: its product with `scale`, rounded to the stored type.
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
  // Combines the result so far (`left`) with the final source. For an average, also divides the sum before rounding it.
  static RONDO_HOST_DEVICE Stored Last(Stored left, Stored right, const By&) { return Next(left, right); }
  // Used instead of Next and Last if there is only one source.
  static RONDO_HOST_DEVICE Stored Only(Stored value, const By&) { return value; }
  // Converts the result for all sources to the stored type.
  static RONDO_HOST_DEVICE Stored Finish(Partial value) { return value; }
};

// Averages that are summed in a wider type: which types these are, what the wider type is, and how two sums are added.
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
struct Reduction<T, ReduceOp::kAvg, std::enable_if_t<kIsWidened<T>>> {
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

// Averages whose operands are scaled: a partial result has the computed type, with a value rounded to the stored type.
template <typename T>
struct Reduction<T, ReduceOp::kAvg, std::enable_if_t<!kIsWidened<T>>> {
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
