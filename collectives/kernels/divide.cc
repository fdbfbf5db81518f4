// Averages of integers, and conversions to and from the wider types in which they are sent. The code is plain C++,
// because processors have no vector instructions for integer division or 128-bit integers. Compilers vectorise the
// conversions.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/kernels/families.h"

namespace rondo::kernels {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <typename T>
struct UnsignedOf {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct UnsignedOf<Int128> {
  using Type = Uint128;
};

template <typename T>
T LoadAt(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

template <typename T>
void StoreAt(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof value, &value, sizeof value);
}

// `divisor` might not fit into T, for example with 8-bit elements and 1000 ranks.
template <typename T>
T Divide(T value, int divisor) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value / static_cast<std::uint64_t>(divisor);
  } else if constexpr (sizeof(T) == 1 || sizeof(T) == 16 || std::is_same_v<T, std::int32_t>) {
    return static_cast<T>(value / divisor);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(value) / divisor);
  }
}

template <typename T>
void DivideAll(std::byte* destination, const std::byte* source, std::size_t elements, int divisor) {
  for (std::size_t i = 0; i < elements; ++i) StoreAt(destination, i, Divide(LoadAt<T>(source, i), divisor));
}

template <typename T>
void SumAndDivideAll(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                     int divisor) {
  using Unsigned = typename UnsignedOf<T>::Type;  // overflow of unsigned types is defined: it wraps
  for (std::size_t i = 0; i < elements; ++i) {
    const auto sum = static_cast<Unsigned>(LoadAt<Unsigned>(left, i) + LoadAt<Unsigned>(right, i));
    StoreAt(destination, i, Divide(static_cast<T>(sum), divisor));
  }
}

template <typename From, typename To>
void Convert(std::byte* destination, const std::byte* source, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) StoreAt(destination, i, static_cast<To>(LoadAt<From>(source, i)));
}

}  // namespace

void DivideIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor) {
  if (type == kInt128) return DivideAll<Int128>(destination, source, elements, divisor);
  switch (type) {
    case DataType::kInt8: return DivideAll<std::int8_t>(destination, source, elements, divisor);
    case DataType::kUint8: return DivideAll<std::uint8_t>(destination, source, elements, divisor);
    case DataType::kInt32: return DivideAll<std::int32_t>(destination, source, elements, divisor);
    case DataType::kUint32: return DivideAll<std::uint32_t>(destination, source, elements, divisor);
    case DataType::kInt64: return DivideAll<std::int64_t>(destination, source, elements, divisor);
    case DataType::kUint64: return DivideAll<std::uint64_t>(destination, source, elements, divisor);
    default: return;
  }
}

void SumAndDivideIntegers(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements,
                          DataType type, int divisor) {
  if (type == kInt128) return SumAndDivideAll<Int128>(destination, left, right, elements, divisor);
  switch (type) {
    case DataType::kInt8: return SumAndDivideAll<std::int8_t>(destination, left, right, elements, divisor);
    case DataType::kUint8: return SumAndDivideAll<std::uint8_t>(destination, left, right, elements, divisor);
    case DataType::kInt32: return SumAndDivideAll<std::int32_t>(destination, left, right, elements, divisor);
    case DataType::kUint32: return SumAndDivideAll<std::uint32_t>(destination, left, right, elements, divisor);
    case DataType::kInt64: return SumAndDivideAll<std::int64_t>(destination, left, right, elements, divisor);
    case DataType::kUint64: return SumAndDivideAll<std::uint64_t>(destination, left, right, elements, divisor);
    default: return;
  }
}

void SumInt128(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i)
    StoreAt(destination, i, LoadAt<Uint128>(left, i) + LoadAt<Uint128>(right, i));
}

void WidenIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  switch (type) {
    case DataType::kInt8: return Convert<std::int8_t, std::int32_t>(destination, source, elements);
    case DataType::kUint8: return Convert<std::uint8_t, std::uint32_t>(destination, source, elements);
    case DataType::kInt32: return Convert<std::int32_t, std::int64_t>(destination, source, elements);
    case DataType::kUint32: return Convert<std::uint32_t, std::uint64_t>(destination, source, elements);
    case DataType::kInt64: return Convert<std::int64_t, Int128>(destination, source, elements);
    case DataType::kUint64: return Convert<std::uint64_t, Int128>(destination, source, elements);
    default: return;
  }
}

void NarrowIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type) {
  switch (type) {
    case DataType::kInt8: return Convert<std::int32_t, std::int8_t>(destination, source, elements);
    case DataType::kUint8: return Convert<std::uint32_t, std::uint8_t>(destination, source, elements);
    case DataType::kInt32: return Convert<std::int64_t, std::int32_t>(destination, source, elements);
    case DataType::kUint32: return Convert<std::uint64_t, std::uint32_t>(destination, source, elements);
    case DataType::kInt64: return Convert<Int128, std::int64_t>(destination, source, elements);
    case DataType::kUint64: return Convert<Int128, std::uint64_t>(destination, source, elements);
    default: return;
  }
}

}  // namespace rondo::kernels
