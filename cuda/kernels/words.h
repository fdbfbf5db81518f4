// The arithmetic of elements.h on 32-bit words that hold several elements, with bitwise equal results. A GPU that uses
// its full memory bandwidth has time for only a few instructions per byte, so processing element by element would be
// too slow.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/half.h"
#include "base/reduce_op.h"
#include "cuda/kernels/elements.h"
#include "cuda/kernels/host_device.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace rondo::cuda {

// The minimum or maximum of each pair of elements, which are signed or unsigned integers of kBits bits.
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

// A mask for two 16-bit floats in which all bits of each NaN are set. Without its sign bit a NaN is above kInfinity.
template <std::uint32_t kInfinity>
RONDO_HOST_DEVICE std::uint32_t Nans(std::uint32_t word) {
  return (((word & 0x7FFF * kEachHalf) + (0x7FFF - kInfinity) * kEachHalf) >> 15 & kEachHalf) * 0xFFFF;
}

// The minimum or maximum of two pairs of 16-bit floats. The bits are converted to integers of the same order and back:
// the bits of negative floats except the sign are inverted, so that -0 (0x8000) becomes -1 and is below +0.
template <std::uint32_t kInfinity, std::uint32_t kNan, bool kMinimum>
RONDO_HOST_DEVICE std::uint32_t ExtremesOfFloats(std::uint32_t left, std::uint32_t right) {
  const auto ordered = [](std::uint32_t word) { return word ^ ((word >> 15 & kEachHalf) * 0x7FFF); };
  const std::uint32_t nans = Nans<kInfinity>(left) | Nans<kInfinity>(right);
  const std::uint32_t value = ordered(Extremes<16, true, kMinimum>(ordered(left), ordered(right)));
  return (value & ~nans) | (kNan * kEachHalf & nans);
}

// The sums of the bytes, modulo 2^8. The highest bit of each byte is added separately, so that no carry reaches the
// next byte.
RONDO_HOST_DEVICE std::uint32_t SumsOfBytes(std::uint32_t left, std::uint32_t right) {
  constexpr std::uint32_t kLow = 0x7F7F'7F7F;
  return ((left & kLow) + (right & kLow)) ^ ((left ^ right) & ~kLow);
}

// Each byte becomes 0 or 1: 1 if it is not 0.
RONDO_HOST_DEVICE std::uint32_t Truths(std::uint32_t word) {
  return (((word & 0x7F7F'7F7F) + 0x7F7F'7F7F) | word) >> 7 & 0x0101'0101;
}

// Two 16-bit floats of type T, computed in float32. kInfinity and kNan are bits of T.
template <typename T, std::uint32_t kInfinity, std::uint32_t kNan>
struct Halves {
  float low, high;
  static RONDO_HOST_DEVICE Halves Load(std::uint32_t word) {
    return {T::Load(static_cast<std::uint16_t>(word)), T::Load(static_cast<std::uint16_t>(word >> 16))};
  }
  // NaNs in the result may be any NaN; Canonical makes them canonical.
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

// ReduceVectors reduces element by element (ByElement) or word by word (ByWord).
template <class F>
struct ByElement {
  using Unit = typename F::Stored;
  using Partial = typename F::Partial;
  using By = typename F::By;
  static RONDO_HOST_DEVICE Partial First(Unit value, double scale, const By& by) { return F::First(value, scale, by); }
  static RONDO_HOST_DEVICE Partial Next(Partial left, Partial right) { return F::Next(left, right); }
  static RONDO_HOST_DEVICE Partial Last(Partial left, Partial right, const By& by) { return F::Last(left, right, by); }
  static RONDO_HOST_DEVICE Partial Only(Partial value, const By& by) { return F::Only(value, by); }
  static RONDO_HOST_DEVICE Unit Finish(Partial value) { return F::Finish(value); }
};

// A word holds four bytes or two 16-bit floats.
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
  // Sums of bytes are computed word by word. Averages of bytes are not, because their sums need a wider type.
  static constexpr bool kSum = kOp == ReduceOp::kSum;
  static constexpr bool kServes = kHalves || kBool || ((kExtreme || kSum) && sizeof(typename F::Stored) == 1);
  using Two =
      std::conditional_t<std::is_same_v<T, Float16>, Halves<T, 0x7C00, kNanFloat16>, Halves<T, 0x7F80, kNanBfloat16>>;
  // Averages of 16-bit floats keep their partial sums as float32. For bfloat16, each partial sum is also rounded to
  // bfloat16.
  static constexpr bool kAverage = kOp == ReduceOp::kAvg;
  static constexpr bool kScaled = kAverage && std::is_same_v<T, Bfloat16>;
  using Partial = std::conditional_t<kAverage, Two, Unit>;

  static RONDO_HOST_DEVICE Partial First(Unit word, double scale, const By& by) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      const Two value = Two::Load(word);
      const auto factor = static_cast<float>(scale);
      return Two{value.low * factor, value.high * factor}.Store();
    } else if constexpr (kScaled) {
      const Two value = Two::Load(word);
      return {value.low * by.scale(), value.high * by.scale()};
    } else if constexpr (kAverage) {
      return Two::Load(word);
    } else {
      return word;
    }
  }
  static RONDO_HOST_DEVICE Partial Next(Partial left, Partial right) {
    if constexpr (kBool && (kMinimum || kOp == ReduceOp::kBand)) {
      return Truths(left) & Truths(right);
    } else if constexpr (kBool && kOp == ReduceOp::kBxor) {
      return Truths(left) ^ Truths(right);
    } else if constexpr (kBool) {
      return Truths(left | right);
    } else if constexpr (kHalves && kExtreme) {
      return Two::template Extremes<kMinimum>(left, right);
    } else if constexpr (kScaled) {
      return Two::Load(Sum(left, right).Store());
    } else if constexpr (kAverage) {
      return Sum(left, right);
    } else if constexpr (kHalves) {
      return Combined(left, right).Store();
    } else if constexpr (kSum) {
      return SumsOfBytes(left, right);
    } else {
      return Extremes<8, std::is_signed_v<typename F::Stored>, kMinimum>(left, right);
    }
  }
  static RONDO_HOST_DEVICE Partial Last(Partial left, Partial right, const By& by) {
    if constexpr (kAverage) {
      return Only(Sum(left, right), by);
    } else {
      return Next(left, right);
    }
  }
  static RONDO_HOST_DEVICE Partial Only(Partial value, const By& by) {
    if constexpr (kScaled) {
      return {by.Divide(value.low), by.Divide(value.high)};
    } else if constexpr (kAverage) {
      // The smallest float16 above 0 is 2^-24, so every quotient has the full precision of float32.
      return {by.template Divide<false>(value.low), by.template Divide<false>(value.high)};
    } else {
      return value;
    }
  }
  // Converts the result for two or more sources to the stored type.
  static RONDO_HOST_DEVICE Unit Finish(Partial word) {
    if constexpr (kAverage) {
      return Two::Canonical(word.Store());
    } else if constexpr (kHalves && !kExtreme) {
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
  static RONDO_HOST_DEVICE Two Sum(const Two& left, const Two& right) {
    return {left.low + right.low, left.high + right.high};
  }
};

}  // namespace rondo::cuda
