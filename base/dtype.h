// The types of elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// The numbers go over the wire (docs/WIRE.md): append, never renumber.
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
  kBool,  // one byte; 0 is false, everything else true; results are 0 or 1
};

inline constexpr std::array kAllDataTypes{
    DataType::kInt8,    DataType::kUint8,   DataType::kInt32,   DataType::kUint32,
    DataType::kInt64,   DataType::kUint64,  DataType::kFloat16, DataType::kBfloat16,
    DataType::kFloat32, DataType::kFloat64, DataType::kBool,
};

constexpr std::size_t SizeOf(DataType type) {
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

// "float32", "bfloat16", "bool" ...
std::string_view Name(DataType type);
std::optional<DataType> ParseDataType(std::string_view name);

}  // namespace rondo
