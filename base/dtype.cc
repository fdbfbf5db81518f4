#include "base/dtype.h"

namespace rondo {

std::string_view Name(DataType type) {
  if (type == kInt128) return "int128";
  switch (type) {
    case DataType::kInt8: return "int8";
    case DataType::kUint8: return "uint8";
    case DataType::kInt32: return "int32";
    case DataType::kUint32: return "uint32";
    case DataType::kInt64: return "int64";
    case DataType::kUint64: return "uint64";
    case DataType::kFloat16: return "float16";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kFloat32: return "float32";
    case DataType::kFloat64: return "float64";
    case DataType::kBool: return "bool";
  }
  return "unknown";
}

std::optional<DataType> ParseDataType(std::string_view name) {
  for (DataType type : kAllDataTypes)
    if (Name(type) == name) return type;
  return std::nullopt;
}

}  // namespace rondo
