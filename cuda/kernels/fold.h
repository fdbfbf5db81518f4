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

template <typename T>
RONDO_HOST_DEVICE T Canonical(T value) {
  if constexpr (sizeof(T) == 4) {
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

template <ReduceOp kOp, typename T>
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
      return Canonical<T>(left + right);
    if constexpr (kOp == ReduceOp::kProd) return Canonical<T>(left * right);
    if constexpr (kOp == ReduceOp::kMin || kOp == ReduceOp::kMax) {
      if (IsNan(left) || IsNan(right)) return Canonical<T>(left + right);
      constexpr bool kMinimum = kOp == ReduceOp::kMin;
      if (left == right) return SignBit(left) == kMinimum ? left : right;
      return (left < right) == kMinimum ? left : right;
    }
  }
}

// The whole of one element: T says how it is kept and computed.
template <typename T, ReduceOp kOp>
struct Fold {
  using Element = T;
  using Stored = typename T::Stored;
  using Computed = typename T::Computed;

  // What a source brings; of a pre-multiplied sum its product, rounded to how it is kept.
  static RONDO_HOST_DEVICE Stored First(Stored value, double scale) {
    if constexpr (kOp == ReduceOp::kPremulSum) {
      return T::Store(Canonical<Computed>(T::Load(value) * static_cast<Computed>(scale)));
    } else {
      return value;
    }
  }
  static RONDO_HOST_DEVICE Stored Next(Stored left, Stored right) {
    return T::Store(Combine<kOp, Computed>(T::Load(left), T::Load(right)));
  }
  // The last one, of an average: the sum is divided before it is rounded.
  static RONDO_HOST_DEVICE Stored Last(Stored left, Stored right, std::int32_t divisor) {
    if constexpr (kOp == ReduceOp::kAvg) {
      return T::Store(Divided(Combine<ReduceOp::kSum, Computed>(T::Load(left), T::Load(right)), divisor));
    } else {
      return Next(left, right);
    }
  }
  // Of one source alone, the only one that is not combined.
  static RONDO_HOST_DEVICE Stored Only(Stored value, std::int32_t divisor) {
    if constexpr (kOp == ReduceOp::kAvg) {
      return T::Store(Divided(T::Load(value), divisor));
    } else {
      return value;
    }
  }

 private:
  static RONDO_HOST_DEVICE Computed Divided(Computed sum, std::int32_t divisor) {
    if constexpr (std::is_floating_point_v<Computed>) {
      return Canonical<Computed>(sum / static_cast<Computed>(divisor));
    } else if constexpr (sizeof(Computed) <= 4) {  // GPUs divide 64 bits by many instructions
      return static_cast<Computed>(
          sum / static_cast<std::conditional_t<std::is_signed_v<Computed>, std::int32_t, std::uint32_t>>(divisor));
    } else {
      return static_cast<Computed>(
          sum / static_cast<std::conditional_t<std::is_signed_v<Computed>, std::int64_t, std::uint64_t>>(divisor));
    }
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
  S value = F::First(LoadAny<S>(arguments.sources[0] + at), arguments.scales[0]);
  if (arguments.count == 1) value = F::Only(value, arguments.divisor);
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    const S next = F::First(LoadAny<S>(arguments.sources[s] + at), arguments.scales[s]);
    value = s + 1 < arguments.count ? F::Next(value, next) : F::Last(value, next, arguments.divisor);
  }
  StoreAny<S>(arguments.destination + at, value);
}

// Vectors first, first + stride ... kRow of them: what is loaded of one source is under way together.
template <class F, int kRow>
RONDO_HOST_DEVICE void FoldVectors(const FoldArguments& arguments, std::uint64_t skipped, std::uint64_t first,
                                   std::uint64_t stride) {
  using S = typename F::Stored;
  constexpr int kLanes = sizeof(Vector) / sizeof(S);
  union Lanes {
    Vector vector;
    S lanes[kLanes];
  };
  const auto load = [&](int source, int i) {
    return *reinterpret_cast<const Vector*>(arguments.sources[source] + skipped +
                                            (first + static_cast<std::uint64_t>(i) * stride) * sizeof(Vector));
  };
  Lanes value[kRow];
  for (int i = 0; i < kRow; ++i) value[i].vector = load(0, i);
  for (int i = 0; i < kRow; ++i) {
    for (S& lane : value[i].lanes) {
      lane = F::First(lane, arguments.scales[0]);
      if (arguments.count == 1) lane = F::Only(lane, arguments.divisor);
    }
  }
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    Lanes next[kRow];
    for (int i = 0; i < kRow; ++i) next[i].vector = load(s, i);
    const bool last = s + 1 == arguments.count;
    for (int i = 0; i < kRow; ++i) {
      for (int k = 0; k < kLanes; ++k) {
        const S right = F::First(next[i].lanes[k], arguments.scales[s]);
        value[i].lanes[k] =
            last ? F::Last(value[i].lanes[k], right, arguments.divisor) : F::Next(value[i].lanes[k], right);
      }
    }
  }
  for (int i = 0; i < kRow; ++i)
    *reinterpret_cast<Vector*>(arguments.destination + skipped +
                               (first + static_cast<std::uint64_t>(i) * stride) * sizeof(Vector)) = value[i].vector;
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
  std::uint64_t at = thread;
  for (; at + (kRow - 1) * threads < vectors; at += kRow * threads)
    FoldVectors<F, kRow>(arguments, skipped, at, threads);
  for (; at < vectors; at += threads) FoldVectors<F, 1>(arguments, skipped, at, threads);
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
