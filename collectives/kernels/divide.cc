// Averages of integers: plain C++, because processors have no vectors of integer division.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collectives/kernels/families.h"

namespace rondo::kernels {
namespace {

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

// The divisor may be beyond T: 8-bit elements in a world of 1000.
template <typename T>
T Divide(T value, int divisor) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value / static_cast<std::uint64_t>(divisor);
  } else if constexpr (sizeof(T) == 1 || std::is_same_v<T, std::int32_t>) {
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
  using Unsigned = std::make_unsigned_t<T>;  // where wrapping is defined
  for (std::size_t i = 0; i < elements; ++i) {
    const auto sum = static_cast<Unsigned>(LoadAt<Unsigned>(left, i) + LoadAt<Unsigned>(right, i));
    StoreAt(destination, i, Divide(static_cast<T>(sum), divisor));
  }
}

}  // namespace

void DivideIntegers(std::byte* destination, const std::byte* source, std::size_t elements, DataType type, int divisor) {
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

}  // namespace rondo::kernels
