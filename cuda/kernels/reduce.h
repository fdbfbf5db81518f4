// Device reductions, in C++ that both nvcc and the host's compiler compile: an ordered (left-fold) reduction of several
// vectors, element by element, with the arithmetic of elements.h. All code of the kernels is here, so that it can be
// tested without a GPU; kernels.cu only defines the kernels.
//
//   destination[i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) op ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/reduce_op.h"
#include "cuda/kernels/elements.h"
#include "cuda/kernels/host_device.h"
#include "cuda/kernels/words.h"

namespace rondo::cuda {

// The maximum number of sources, and so of the ranks of a host whose devices work together.
inline constexpr int kMaxSources = 16;

// The kernels' only parameter. Pointers are device addresses of any alignment. `destination` may equal one of the
// sources; no other overlap is allowed.
struct ReduceArguments {
  std::byte* destination = nullptr;
  const std::byte* sources[kMaxSources] = {};
  std::uint64_t elements = 0;
  std::int32_t count = 0;           // number of sources, at least 1
  std::int32_t divisor = 0;         // for kAvg: the world size; otherwise ignored
  double scales[kMaxSources] = {};  // for kPremulSum: each source's factor
  // BarrierState::over, or null. If the word is not 0, the kernel does nothing, because it must not touch the memory
  // any more.
  const std::uint64_t* over = nullptr;
};
static_assert(std::is_trivially_copyable_v<ReduceArguments>);

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

// Reduces one element. The memory may have any alignment.
template <class F>
RONDO_HOST_DEVICE void ReduceElement(const ReduceArguments& arguments, std::uint64_t element) {
  using S = typename F::Stored;
  const std::uint64_t at = element * sizeof(S);
  const typename F::By by(arguments.divisor);
  typename F::Partial value = F::First(LoadAny<S>(arguments.sources[0] + at), arguments.scales[0], by);
  if (arguments.count == 1) value = F::Only(value, by);
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    const typename F::Partial next = F::First(LoadAny<S>(arguments.sources[s] + at), arguments.scales[s], by);
    value = s + 1 < arguments.count ? F::Next(value, next) : F::Last(value, next, by);
  }
  StoreAny<S>(arguments.destination + at, F::Finish(value));
}

// Reduces kRow vectors: first, first + stride, ... All loads from one source are issued before any loaded value is
// used.
template <class F, int kRow>
RONDO_HOST_DEVICE void ReduceVectors(const ReduceArguments& arguments, const typename F::By& by, std::uint64_t skipped,
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
  // Whether the operation changes even a single source.
  constexpr bool kChanges = F::kOperation == ReduceOp::kAvg || F::kOperation == ReduceOp::kPremulSum;
  Units next[kRow];
  typename Way::Partial value[kRow][kUnits];
  RONDO_UNROLL
  for (int i = 0; i < kRow; ++i) next[i].vector = load(0, i);
  RONDO_UNROLL
  for (int i = 0; i < kRow; ++i) {
    RONDO_UNROLL
    for (int k = 0; k < kUnits; ++k) {
      value[i][k] = Way::First(next[i].at[k], arguments.scales[0], by);
      if (kChanges && alone) value[i][k] = Way::Only(value[i][k], by);
    }
  }
  for (std::int32_t s = 1; s < arguments.count; ++s) {
    const double scale = arguments.scales[s];
    const bool last = s + 1 == arguments.count;
    RONDO_UNROLL
    for (int i = 0; i < kRow; ++i) next[i].vector = load(s, i);
    RONDO_UNROLL
    for (int i = 0; i < kRow; ++i) {
      RONDO_UNROLL
      for (int k = 0; k < kUnits; ++k) {
        const auto left = value[i][k];
        const auto right = Way::First(next[i].at[k], scale, by);
        value[i][k] = last ? Way::Last(left, right, by) : Way::Next(left, right);
      }
    }
  }
  RONDO_UNROLL
  for (int i = 0; i < kRow; ++i) {
    Units result;
    RONDO_UNROLL
    for (int k = 0; k < kUnits; ++k) {
      if constexpr (kChanges) {
        result.at[k] = Way::Finish(value[i][k]);
      } else {  // a single source is copied bit by bit
        result.at[k] = alone ? value[i][k] : Way::Finish(value[i][k]);
      }
    }
    *reinterpret_cast<Vector*>(arguments.destination + skipped +
                               (first + static_cast<std::uint64_t>(i) * stride) * sizeof(Vector)) = result.vector;
  }
}

// Whether arguments.over is set. The load is volatile or atomic, because a barrier on another stream may write the word
// at the same time.
RONDO_HOST_DEVICE bool IsOver(const ReduceArguments& arguments) {
  if (arguments.over == nullptr) return false;
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile std::uint64_t*>(arguments.over) != 0;
#else
  return __atomic_load_n(arguments.over, __ATOMIC_RELAXED) != 0;
#endif
}

// Reduces the share of thread number `thread` of `threads` threads. If all memory has the same offset from a 16-byte
// boundary, aligned data is reduced in vectors, kRow at a time. The rest at both ends is reduced element by element,
// and so is all data if the offsets differ.
template <class F>
RONDO_HOST_DEVICE void ReducePart(const ReduceArguments& arguments, std::uint64_t thread, std::uint64_t threads) {
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
    for (std::uint64_t e = thread; e < arguments.elements; e += threads) ReduceElement<F>(arguments, e);
    return;
  }
  const std::uint64_t vectors = (bytes - skipped) / kLine;
  const typename F::By by(arguments.divisor);
  std::uint64_t at = thread;
  for (; at + (kRow - 1) * threads < vectors; at += kRow * threads)
    ReduceVectors<F, kRow>(arguments, by, skipped, at, threads);
  for (; at < vectors; at += threads) ReduceVectors<F, 1>(arguments, by, skipped, at, threads);
  const std::uint64_t before = skipped / sizeof(S);
  const std::uint64_t behind = (skipped + vectors * kLine) / sizeof(S);
  const std::uint64_t left = before + (arguments.elements - behind);
  for (std::uint64_t e = thread; e < left; e += threads)
    ReduceElement<F>(arguments, e < before ? e : behind + (e - before));
}

// ---- the list of kernels ----

// Every pairing of type and operation that CheckPairing allows: X(name of type, name of operation, Element, kOp).
#define RONDO_REDUCTIONS_OF_INTEGER(X, name, T)                    \
  X(name, sum, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kSum)   \
  X(name, prod, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kProd) \
  X(name, min, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kMin)   \
  X(name, max, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kMax)   \
  X(name, avg, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kAvg)   \
  X(name, band, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBand) \
  X(name, bor, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBor)   \
  X(name, bxor, ::rondo::cuda::Plain<T>, ::rondo::ReduceOp::kBxor)
#define RONDO_REDUCTIONS_OF_FLOAT(X, name, Element) \
  X(name, sum, Element, ::rondo::ReduceOp::kSum)    \
  X(name, prod, Element, ::rondo::ReduceOp::kProd)  \
  X(name, min, Element, ::rondo::ReduceOp::kMin)    \
  X(name, max, Element, ::rondo::ReduceOp::kMax)    \
  X(name, avg, Element, ::rondo::ReduceOp::kAvg)    \
  X(name, premul_sum, Element, ::rondo::ReduceOp::kPremulSum)
#define RONDO_REDUCTIONS(X)                                           \
  RONDO_REDUCTIONS_OF_INTEGER(X, int8, std::int8_t)                   \
  RONDO_REDUCTIONS_OF_INTEGER(X, uint8, std::uint8_t)                 \
  RONDO_REDUCTIONS_OF_INTEGER(X, int32, std::int32_t)                 \
  RONDO_REDUCTIONS_OF_INTEGER(X, uint32, std::uint32_t)               \
  RONDO_REDUCTIONS_OF_INTEGER(X, int64, std::int64_t)                 \
  RONDO_REDUCTIONS_OF_INTEGER(X, uint64, std::uint64_t)               \
  RONDO_REDUCTIONS_OF_FLOAT(X, float16, ::rondo::cuda::Float16)       \
  RONDO_REDUCTIONS_OF_FLOAT(X, bfloat16, ::rondo::cuda::Bfloat16)     \
  RONDO_REDUCTIONS_OF_FLOAT(X, float32, ::rondo::cuda::Plain<float>)  \
  RONDO_REDUCTIONS_OF_FLOAT(X, float64, ::rondo::cuda::Plain<double>) \
  X(bool, min, ::rondo::cuda::Bool, ::rondo::ReduceOp::kMin)          \
  X(bool, max, ::rondo::cuda::Bool, ::rondo::ReduceOp::kMax)          \
  X(bool, band, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBand)        \
  X(bool, bor, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBor)          \
  X(bool, bxor, ::rondo::cuda::Bool, ::rondo::ReduceOp::kBxor)

}  // namespace rondo::cuda
