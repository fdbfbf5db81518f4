// The element types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// The numbers are part of the wire protocol (docs/WIRE.md): append only, never renumber.
enum class DataType : std::uint8_t {
  kInt8 = 1,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,   // IEEE 754 binary16
  kBfloat16,  // the upper half of a binary32
  kFloat32,
  kFloat64,
  kBool,  // one byte; 0 is false, any other value is true; results are 0 or 1
};

inline constexpr std::array kAllDataTypes{
    DataType::kInt8,    DataType::kUint8,   DataType::kInt32,   DataType::kUint32,
    DataType::kInt64,   DataType::kUint64,  DataType::kFloat16, DataType::kBfloat16,
    DataType::kFloat32, DataType::kFloat64, DataType::kBool,
};

// An internal signed integer of 16 bytes. It is the wide type for averages of 64-bit integers. Users cannot select it,
// because it is not in kAllDataTypes, and ParseDataType does not accept its name.
inline constexpr auto kInt128 = static_cast<DataType>(12);

constexpr std::size_t SizeOf(DataType type) {
  if (type == kInt128) return 16;
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool: return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16: return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32: return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64: return 8;
  }
  return 0;
}

constexpr bool IsFloating(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat32 ||
         type == DataType::kFloat64;
}

// The wider type in which elements of `type` can be summed. In this type, sums of integers are exact even for the
// largest possible number of ranks, and 16-bit floats are rounded only once, at the end. If there is no wider type,
// returns `type`.
constexpr DataType WideTypeOf(DataType type) {
  switch (type) {
    case DataType::kInt8: return DataType::kInt32;
    case DataType::kUint8: return DataType::kUint32;
    case DataType::kInt32: return DataType::kInt64;
    case DataType::kUint32: return DataType::kUint64;
    case DataType::kInt64:
    case DataType::kUint64: return kInt128;
    case DataType::kFloat16:
    case DataType::kBfloat16: return DataType::kFloat32;
    default: return type;
  }
}

// The type in which an average of `type` is summed and divided. The average is then correct if it fits `type`, even if
// the sum does not. bfloat16 is not widened, because float32 has the same range. Types that are not widened are scaled
// instead (collectives/kernels/reduce.h).
constexpr DataType AverageTypeOf(DataType type) { return type == DataType::kBfloat16 ? type : WideTypeOf(type); }

// "float32", "bfloat16", "bool" ...
std::string_view Name(DataType type);
std::optional<DataType> ParseDataType(std::string_view name);

}  // namespace rondo
