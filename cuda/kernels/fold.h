// The arithmetic of device reductions, in C++ that nvcc and the host's compiler both understand: a fold of several
// vectors, element by element, from the left. What a kernel does is here, so that it is tested where there is no GPU;
// kernels.cu makes the kernels of it.
//
//   destination[i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) op ...
//
// The bits are those of collectives/kernels/reduce.h, whose comment says what they are: 16-bit floats are computed in
// float32 and rounded after each operation, NaNs are canonical, -0 is below +0, integers wrap. Compile without
// contraction (nvcc -fmad=false), which would round a product and a sum as one.
#pragma once

#include <cstddef>
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

// More than the ranks of a host that share memory on devices.
inline constexpr int kMostSources = 16;

// The kernels' only parameter. Memory is the device's, at any alignment; `destination` may be exactly one of the
// sources, no other overlap.
struct FoldArguments {
  std::byte* destination = nullptr;
  const std::byte* sources[kMostSources] = {};
  std::uint64_t elements = 0;
  std::int32_t count = 0;            // of sources, at least 1
  std::int32_t divisor = 0;          // of kAvg: the world's size, else nothing
  double scales[kMostSources] = {};  // of kPremulSum: each source's factor
  // Null, or where it says that the memory may no longer be touched (MeetingPlace::over): nothing is done then.
  const std::uint64_t* over = nullptr;
};
static_assert(std::is_trivially_copyable_v<FoldArguments>);

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
    if constexpr (kOp == ReduceOp::kSum || kOp == ReduceOp::kAvg)
      return static_cast<T>(static_cast<U>(left) + static_cast<U>(right));
    if constexpr (kOp == ReduceOp::kProd) return static_cast<T>(static_cast<U>(left) * static_cast<U>(right));
    if constexpr (kOp == ReduceOp::kMin) return right < left ? right : left;
    if constexpr (kOp == ReduceOp::kMax) return left < right ? right : left;
    if constexpr (kOp == ReduceOp::kBand) return static_cast<T>(left & right);
    if constexpr (kOp == ReduceOp::kBor) return static_cast<T>(left | right);
    if constexpr (kOp == ReduceOp::kBxor) return static_cast<T>(left ^ right);
  } else {
    if constexpr (kOp == ReduceOp::kSum || kOp == ReduceOp::kAvg || kOp == ReduceOp::kPremulSum)
      return Canonical<T, kCanonical>(left + right);
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

// Of bytes: a product with 2^16 / by, rounded up, which is off by less than 1 / by for all of them. A larger divisor
// than 256 leaves as much as that: nothing.
template <typename T>
struct Divisor<T, std::enable_if_t<std::is_integral_v<T> && sizeof(T) == 1>> {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by) : factor_(65536 / (by < 256 ? by : 256) + 1) {}
  RONDO_HOST_DEVICE T Divide(T value) const {
    const std::int32_t quotient = (static_cast<std::int32_t>(value) * factor_) >> 16;  // rounded down
    if constexpr (std::is_signed_v<T>) return static_cast<T>(quotient + (value < 0 ? 1 : 0));
    return static_cast<T>(quotient);
  }

 private:
  std::int32_t factor_;
};

template <typename T>
struct Divisor<T, std::enable_if_t<std::is_integral_v<T> && (sizeof(T) > 1)>> {
  explicit RONDO_HOST_DEVICE Divisor(std::int32_t by) : by_(static_cast<Wide>(by)) {}
  RONDO_HOST_DEVICE T Divide(T value) const { return static_cast<T>(value / by_); }

 private:
  using Wide =
      std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                         std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>;  // GPUs divide 64 bits
                                                                                                 // by more instructions
  Wide by_;
};

struct NoDivisor {  // of what is no average
  explicit RONDO_HOST_DEVICE NoDivisor(std::int32_t) {}
};

// The whole of one element: T says how it is kept and computed.
template <typename T, ReduceOp kOp>
struct Fold {
  using Element = T;
  static constexpr ReduceOp kOperation = kOp;
  using Stored = typename T::Stored;
  using Computed = typename T::Computed;
  using By = std::conditional_t<kOp == ReduceOp::kAvg, Divisor<Computed>, NoDivisor>;
  static constexpr bool kStoredAsComputed = std::is_same_v<Stored, Computed>;  // else storing makes NaNs canonical

  // What a source brings; of a pre-multiplied sum its product, rounded to how it is kept.
  static RONDO_HOST_DEVICE Stored First(Stored value, double scale) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      return T::Store(Canonical<Computed, kStoredAsComputed>(T::Load(value) * static_cast<Computed>(scale)));
    } else {
      return value;
    }
  }
  static RONDO_HOST_DEVICE Stored Next(Stored left, Stored right) {
    return T::Store(Combine<kOp, Computed, kStoredAsComputed>(T::Load(left), T::Load(right)));
  }
  // The last one, of an average: the sum is divided before it is rounded.
  static RONDO_HOST_DEVICE Stored Last(Stored left, Stored right, const By& by) {
    if constexpr (kOp == ReduceOp::kAvg) {
      return T::Store(Divided(Combine<ReduceOp::kSum, Computed, kStoredAsComputed>(T::Load(left), T::Load(right)), by));
    } else {
      return Next(left, right);
    }
  }
  // Of one source alone, the only one that is not combined.
  static RONDO_HOST_DEVICE Stored Only(Stored value, const By& by) {
    if constexpr (kOp == ReduceOp::kAvg) {
      return T::Store(Divided(T::Load(value), by));
    } else {
      return value;
    }
  }

 private:
  static RONDO_HOST_DEVICE Computed Divided(Computed sum, const By& by) {
    if constexpr (std::is_floating_point_v<Computed>) {
      return Canonical<Computed, kStoredAsComputed>(by.Divide(sum));
    } else {
      return by.Divide(sum);
    }
  }
};

// ---- words of 32 bits, where they have several elements ----

// The smaller or the larger of each of the word's elements, as signed or unsigned integers of kBits.
template <int kBits, bool kSigned, bool kMinimum>
RONDO_HOST_DEVICE std::uint32_t Extremes(std::uint32_t left, std::uint32_t right) {
#ifdef __CUDA_ARCH__
  if constexpr (kBits == 16 && kMinimum) return __vmins2(left, right);
  if constexpr (kBits == 16 && !kMinimum) return __vmaxs2(left, right);
  if constexpr (kBits == 8 && kSigned) return kMinimum ? __vmins4(left, right) : __vmaxs4(left, right);
  return kMinimum ? __vminu4(left, right) : __vmaxu4(left, right);
#else
  using Unsigned = std::conditional_t<kBits == 16, std::uint16_t, std::uint8_t>;
  using Signed = std::conditional_t<kBits == 16, std::int16_t, std::int8_t>;
  using S = std::conditional_t<kSigned, Signed, Unsigned>;
  std::uint32_t word = 0;
  for (int at = 0; at < 32; at += kBits) {
    const auto a = static_cast<S>(left >> at);
    const auto b = static_cast<S>(right >> at);
    word |= static_cast<std::uint32_t>(static_cast<Unsigned>((a < b) == kMinimum ? a : b)) << at;
  }
  return word;
#endif
}

constexpr std::uint32_t kEachHalf = 0x0001'0001;

// All bits of those of two 16-bit floats that are NaNs: larger, but for the sign, than kInfinity.
template <std::uint32_t kInfinity>
RONDO_HOST_DEVICE std::uint32_t Nans(std::uint32_t word) {
  return (((word & 0x7FFF * kEachHalf) + (0x7FFF - kInfinity) * kEachHalf) >> 15 & kEachHalf) * 0xFFFF;
}

// Of two 16-bit floats. Their bits are turned into integers of the same order and back: those of negative ones are
// inverted, so that -0 (0x8000) is -1 and below +0.
template <std::uint32_t kInfinity, std::uint32_t kNan, bool kMinimum>
RONDO_HOST_DEVICE std::uint32_t ExtremesOfFloats(std::uint32_t left, std::uint32_t right) {
  const auto ordered = [](std::uint32_t word) { return word ^ ((word >> 15 & kEachHalf) * 0x7FFF); };
  const std::uint32_t nans = Nans<kInfinity>(left) | Nans<kInfinity>(right);
  const std::uint32_t value = ordered(Extremes<16, true, kMinimum>(ordered(left), ordered(right)));
  return (value & ~nans) | (kNan * kEachHalf & nans);
}

// The sum of each byte, modulo 2^8: without their highest bits nothing is carried over.
RONDO_HOST_DEVICE std::uint32_t SumsOfBytes(std::uint32_t left, std::uint32_t right) {
  constexpr std::uint32_t kLow = 0x7F7F'7F7F;
  return ((left & kLow) + (right & kLow)) ^ ((left ^ right) & ~kLow);
}

// Each byte 0 or 1.
RONDO_HOST_DEVICE std::uint32_t Truths(std::uint32_t word) {
  return (((word & 0x7F7F'7F7F) + 0x7F7F'7F7F) | word) >> 7 & 0x0101'0101;
}

// Two 16-bit floats, of T, which kInfinity and kNan are of.
template <typename T, std::uint32_t kInfinity, std::uint32_t kNan>
struct Halves {
  float low, high;
  static RONDO_HOST_DEVICE Halves Load(std::uint32_t word) {
    return {T::Load(static_cast<std::uint16_t>(word)), T::Load(static_cast<std::uint16_t>(word >> 16))};
  }
  // NaNs are some NaNs.
  RONDO_HOST_DEVICE std::uint32_t Store() const {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<T, Float16>) {
      const __half2 both = __floats2half2_rn(low, high);
      return static_cast<std::uint32_t>(__half_as_ushort(both.x)) | static_cast<std::uint32_t>(__half_as_ushort(both.y))
                                                                        << 16;
    } else {
      const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
      return static_cast<std::uint32_t>(__bfloat16_as_ushort(both.x)) |
             static_cast<std::uint32_t>(__bfloat16_as_ushort(both.y)) << 16;
    }
#else
    return T::Store(low) | static_cast<std::uint32_t>(T::Store(high)) << 16;
#endif
  }
  static RONDO_HOST_DEVICE std::uint32_t Canonical(std::uint32_t word) {
    const std::uint32_t nans = Nans<kInfinity>(word);
    return (word & ~nans) | (kNan * kEachHalf & nans);
  }
  template <bool kMinimum>
  static RONDO_HOST_DEVICE std::uint32_t Extremes(std::uint32_t left, std::uint32_t right) {
    return ExtremesOfFloats<kInfinity, kNan, kMinimum>(left, right);
  }
};

// How vectors in memory are worked on: element by element,
template <class F>
struct ByElement {
  using Unit = typename F::Stored;
  using By = typename F::By;
  static RONDO_HOST_DEVICE Unit First(Unit value, double scale) { return F::First(value, scale); }
  static RONDO_HOST_DEVICE Unit Next(Unit left, Unit right) { return F::Next(left, right); }
  static RONDO_HOST_DEVICE Unit Last(Unit left, Unit right, const By& by) { return F::Last(left, right, by); }
  static RONDO_HOST_DEVICE Unit Only(Unit value, const By& by) { return F::Only(value, by); }
  static RONDO_HOST_DEVICE Unit Finish(Unit value) { return value; }
};

// or by words of four bytes' or two 16-bit floats' worth.
template <class F>
struct ByWord {
  using Unit = std::uint32_t;
  using By = typename F::By;
  using T = typename F::Element;
  static constexpr ReduceOp kOp = F::kOperation;
  static constexpr bool kMinimum = kOp == ReduceOp::kMin;
  static constexpr bool kExtreme = kMinimum || kOp == ReduceOp::kMax;
  static constexpr bool kBool = std::is_same_v<T, Bool>;
  static constexpr bool kHalves = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
  static constexpr bool kSum = kOp == ReduceOp::kSum || kOp == ReduceOp::kAvg;
  static constexpr bool kServes = kHalves || kBool || ((kExtreme || kSum) && sizeof(typename F::Stored) == 1);
  using Two =
      std::conditional_t<std::is_same_v<T, Float16>, Halves<T, 0x7C00, kNanFloat16>, Halves<T, 0x7F80, kNanBfloat16>>;

  static RONDO_HOST_DEVICE Unit First(Unit word, double scale) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      const Two value = Two::Load(word);
      const auto factor = static_cast<float>(scale);
      return Two{value.low * factor, value.high * factor}.Store();
    } else {
      return word;
    }
  }
  static RONDO_HOST_DEVICE Unit Next(Unit left, Unit right) {
    if constexpr (kBool && (kMinimum || kOp == ReduceOp::kBand)) {
      return Truths(left) & Truths(right);
    } else if constexpr (kBool && kOp == ReduceOp::kBxor) {
      return Truths(left) ^ Truths(right);
    } else if constexpr (kBool) {
      return Truths(left | right);
    } else if constexpr (kHalves && kExtreme) {
      return Two::template Extremes<kMinimum>(left, right);
    } else if constexpr (kHalves) {
      return Combined(left, right).Store();
    } else if constexpr (kSum) {
      return SumsOfBytes(left, right);
    } else {
      return Extremes<8, std::is_signed_v<typename F::Stored>, kMinimum>(left, right);
    }
  }
  static RONDO_HOST_DEVICE Unit Last(Unit left, Unit right, const By& by) {
    if constexpr (kOp == ReduceOp::kAvg && kHalves) {
      return Divided(Combined(left, right), by);
    } else if constexpr (kOp == ReduceOp::kAvg) {
      return Divided(SumsOfBytes(left, right), by);
    } else {
      return Next(left, right);
    }
  }
  static RONDO_HOST_DEVICE Unit Only(Unit word, const By& by) {
    if constexpr (kOp == ReduceOp::kAvg && kHalves) {
      return Divided(Two::Load(word), by);
    } else if constexpr (kOp == ReduceOp::kAvg) {
      return Divided(word, by);
    } else {
      return word;
    }
  }
  // Of what was combined.
  static RONDO_HOST_DEVICE Unit Finish(Unit word) {
    if constexpr (kHalves && !kExtreme) {
      return Two::Canonical(word);
    } else {
      return word;
    }
  }

 private:
  static RONDO_HOST_DEVICE Two Combined(Unit left, Unit right) {
    const Two a = Two::Load(left);
    const Two b = Two::Load(right);
    return {Combine<kOp, float, false>(a.low, b.low), Combine<kOp, float, false>(a.high, b.high)};
  }
  static RONDO_HOST_DEVICE Unit Divided(const Two& sum, const By& by) {
    constexpr bool kMayBeTiny = !std::is_same_v<T, Float16>;  // the least is 2^-24
    return Two{by.template Divide<kMayBeTiny>(sum.low), by.template Divide<kMayBeTiny>(sum.high)}.Store();
  }
  static RONDO_HOST_DEVICE Unit Divided(Unit bytes, const By& by) {
    using Byte = typename F::Stored;
    Unit word = 0;
    RONDO_UNROLL
    for (int at = 0; at < 32; at += 8)
      word |= static_cast<Unit>(static_cast<std::uint8_t>(by.Divide(static_cast<Byte>(bytes >> at)))) << at;
    return word;
  }
};

// ---- memory ----

struct alignas(16) Vector {
  std::uint32_t words[4];
};

template <typename S>
RONDO_HOST_DEVICE S LoadAny(const std::byte* from) {
  S value;
  auto* const bytes = reinterpret_cast<unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof(S); ++i) bytes[i] = static_cast<unsigned char>(from[i]);
  return value;
}
template <typename S>
RONDO_HOST_DEVICE void StoreAny(std::byte* to, S value) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
  for (std::size_t i = 0; i < sizeof(S); ++i) to[i] = static_cast<std::byte>(bytes[i]);
}

// One element, wherever it lies.
template <class F>
RONDO_HOST_DEVICE void FoldElement(const FoldArguments& arguments, std::uint64_t element) {
  using S = typename F::Stored;
  const std::uint64_t at = element * sizeof(S);
  const typename F::By by(arguments.divisor);
  S value = F::First(LoadAny<S>(arguments.sources[0] + at), arguments.scales[0]);
  if (arguments.count == 1) value = F::Only(value, by);
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    const S next = F::First(LoadAny<S>(arguments.sources[s] + at), arguments.scales[s]);
    value = s + 1 < arguments.count ? F::Next(value, next) : F::Last(value, next, by);
  }
  StoreAny<S>(arguments.destination + at, value);
}

// Vectors first, first + stride ... kRow of them: what is loaded of one source is under way together.
template <class F, int kRow>
RONDO_HOST_DEVICE void FoldVectors(const FoldArguments& arguments, const typename F::By& by, std::uint64_t skipped,
                                   std::uint64_t first, std::uint64_t stride) {
  using Way = std::conditional_t<ByWord<F>::kServes, ByWord<F>, ByElement<F>>;
  constexpr int kUnits = sizeof(Vector) / sizeof(typename Way::Unit);
  union Units {
    Vector vector;
    typename Way::Unit at[kUnits];
  };
  const auto load = [&](int source, int i) {
    return *reinterpret_cast<const Vector*>(arguments.sources[source] + skipped +
                                            (first + static_cast<std::uint64_t>(i) * stride) * sizeof(Vector));
  };
  const bool alone = arguments.count == 1;
  constexpr bool kChanges = F::kOperation == ReduceOp::kAvg || F::kOperation == ReduceOp::kPremulSum;  // also one alone
  Units value[kRow];
  RONDO_UNROLL
  for (int i = 0; i < kRow; ++i) value[i].vector = load(0, i);
  if constexpr (kChanges) {
    RONDO_UNROLL
    for (int i = 0; i < kRow; ++i) {
      RONDO_UNROLL
      for (int k = 0; k < kUnits; ++k) {
        value[i].at[k] = Way::First(value[i].at[k], arguments.scales[0]);
        if (alone) value[i].at[k] = Way::Only(value[i].at[k], by);
      }
    }
  }
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    const double scale = arguments.scales[s];
    const bool last = s + 1 == arguments.count;
    Units next[kRow];
    RONDO_UNROLL
    for (int i = 0; i < kRow; ++i) next[i].vector = load(s, i);
    RONDO_UNROLL
    for (int i = 0; i < kRow; ++i) {
      RONDO_UNROLL
      for (int k = 0; k < kUnits; ++k) {
        const auto left = value[i].at[k];
        const auto right = Way::First(next[i].at[k], scale);
        value[i].at[k] = last ? Way::Last(left, right, by) : Way::Next(left, right);
      }
    }
  }
  RONDO_UNROLL
  for (int i = 0; i < kRow; ++i) {
    RONDO_UNROLL
    for (int k = 0; k < kUnits; ++k)
      if (kChanges || !alone) value[i].at[k] = Way::Finish(value[i].at[k]);
    *reinterpret_cast<Vector*>(arguments.destination + skipped +
                               (first + static_cast<std::uint64_t>(i) * stride) * sizeof(Vector)) = value[i].vector;
  }
}

// Another stream's meeting may write it meanwhile.
RONDO_HOST_DEVICE bool IsOver(const FoldArguments& arguments) {
  if (arguments.over == nullptr) return false;
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile std::uint64_t*>(arguments.over) != 0;
#else
  return __atomic_load_n(arguments.over, __ATOMIC_RELAXED) != 0;
#endif
}

// What thread `thread` of `threads` does of the whole. Where all memory lies alike in its lines of 16 bytes, those go
// as vectors, kRow at a time, and what is left at both ends by elements; else all does.
template <class F>
RONDO_HOST_DEVICE void FoldPart(const FoldArguments& arguments, std::uint64_t thread, std::uint64_t threads) {
  using S = typename F::Stored;
  constexpr std::uint64_t kLine = sizeof(Vector);
  constexpr int kRow = 4;
  if (IsOver(arguments)) return;
  const auto misplaced = [](const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory) % kLine; };
  const std::uint64_t odd = misplaced(arguments.destination);
  bool alike = odd % sizeof(S) == 0;
  for (std::int32_t s = 0; s < arguments.count; ++s) alike = alike && misplaced(arguments.sources[s]) == odd;
  const std::uint64_t bytes = arguments.elements * sizeof(S);
  const std::uint64_t skipped = odd == 0 ? 0 : kLine - odd;
  if (!alike || bytes < skipped + kLine) {
    for (std::uint64_t e = thread; e < arguments.elements; e += threads) FoldElement<F>(arguments, e);
    return;
  }
  const std::uint64_t vectors = (bytes - skipped) / kLine;
  const typename F::By by(arguments.divisor);
  std::uint64_t at = thread;
  for (; at + (kRow - 1) * threads < vectors; at += kRow * threads)
    FoldVectors<F, kRow>(arguments, by, skipped, at, threads);
  for (; at < vectors; at += threads) FoldVectors<F, 1>(arguments, by, skipped, at, threads);
  const std::uint64_t before = skipped / sizeof(S);
  const std::uint64_t behind = (skipped + vectors * kLine) / sizeof(S);
  const std::uint64_t left = before + (arguments.elements - behind);
  for (std::uint64_t e = thread; e < left; e += threads)
    FoldElement<F>(arguments, e < before ? e : behind + (e - before));
}

// ---- which there are ----

// Every pairing of type and operation that CheckPairing allows: X(name of the type, of the operation, Element, kOp).
#define RONDO_FOLDS_OF_INTEGER(X, name, T)                         \
  X(name, sum, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kSum)   \
  X(name, prod, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kProd) \
  X(name, min, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kMin)   \
  X(name, max, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kMax)   \
  X(name, avg, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kAvg)   \
  X(name, band, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBand) \
  X(name, bor, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBor)   \
  X(name, bxor, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBxor)
#define RONDO_FOLDS_OF_FLOAT(X, name, Element)     \
  X(name, sum, Element, ::rondo::ReduceOp::kSum)   \
  X(name, prod, Element, ::rondo::ReduceOp::kProd) \
  X(name, min, Element, ::rondo::ReduceOp::kMin)   \
  X(name, max, Element, ::rondo::ReduceOp::kMax)   \
  X(name, avg, Element, ::rondo::ReduceOp::kAvg)   \
  X(name, premul_sum, Element, ::rondo::ReduceOp::kPremulSum)
#define RONDO_FOLDS(X)                                           \
  RONDO_FOLDS_OF_INTEGER(X, int8, std::int8_t)                   \
  RONDO_FOLDS_OF_INTEGER(X, uint8, std::uint8_t)                 \
  RONDO_FOLDS_OF_INTEGER(X, int32, std::int32_t)                 \
  RONDO_FOLDS_OF_INTEGER(X, uint32, std::uint32_t)               \
  RONDO_FOLDS_OF_INTEGER(X, int64, std::int64_t)                 \
  RONDO_FOLDS_OF_INTEGER(X, uint64, std::uint64_t)               \
  RONDO_FOLDS_OF_FLOAT(X, float16, ::rondo::cuda::Float16)       \
  RONDO_FOLDS_OF_FLOAT(X, bfloat16, ::rondo::cuda::Bfloat16)     \
  RONDO_FOLDS_OF_FLOAT(X, float32, ::rondo::cuda::Plain<float>)  \
  RONDO_FOLDS_OF_FLOAT(X, float64, ::rondo::cuda::Plain<double>) \
  X(bool, min, ::rondo::cuda::Bool, ::rondo::ReduceOp::kMin)     \
  X(bool, max, ::rondo::cuda::Bool, ::rondo::ReduceOp::kMax)     \
  X(bool, band, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBand)   \
  X(bool, bor, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBor)     \
  X(bool, bxor, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBxor)

}  // namespace rondo::cuda
