#include "tests/kernels/reference.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/half.h"

namespace rondo::reference {
namespace {

Bits Mask(DataType type) { return ~Bits{0} >> (64 - 8 * SizeOf(type)); }
bool IsSigned(DataType type) { return type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64; }
std::int64_t SignExtended(DataType type, Bits value) {
  const int unused = 64 - 8 * static_cast<int>(SizeOf(type));
  return static_cast<std::int64_t>(value << unused) >> unused;
}

// ---- floats: float64 is computed in double, every other type in float ----

template <typename T>
T Load(DataType type, Bits value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(value);
  } else {
    if (type == DataType::kFloat16) return FromFloat16(static_cast<std::uint16_t>(value));
    if (type == DataType::kBfloat16) return FromBfloat16(static_cast<std::uint16_t>(value));
    return std::bit_cast<float>(static_cast<std::uint32_t>(value));
  }
}

template <typename T>
Bits Store(DataType type, T value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::isnan(value) ? kNanFloat64 : std::bit_cast<Bits>(value);
  } else {
    if (type == DataType::kFloat16) return ToFloat16(value);
    if (type == DataType::kBfloat16) return ToBfloat16(value);
    return std::isnan(value) ? kNanFloat32 : std::bit_cast<std::uint32_t>(value);
  }
}

template <typename T>
T Smaller(T left, T right) {
  if (std::isnan(left)) return left;
  if (std::isnan(right)) return right;
  if (left == right) return std::signbit(left) ? left : right;
  return left < right ? left : right;
}

template <typename T>
Bits ReduceFloat(DataType type, ReduceOp op, Bits left_bits, Bits right_bits) {
  const T left = Load<T>(type, left_bits);
  const T right = Load<T>(type, right_bits);
  switch (op) {
    case ReduceOp::kProd: return Store<T>(type, left * right);
    case ReduceOp::kMin: return Store<T>(type, Smaller(left, right));
    case ReduceOp::kMax: return Store<T>(type, -Smaller(-left, -right));
    default: return Store<T>(type, left + right);
  }
}

// ---- integers ----

Bits ReduceInteger(DataType type, ReduceOp op, Bits left, Bits right) {
  const bool less = IsSigned(type) ? SignExtended(type, left) < SignExtended(type, right) : left < right;
  switch (op) {
    case ReduceOp::kProd: return (left * right) & Mask(type);
    case ReduceOp::kMin: return less ? left : right;
    case ReduceOp::kMax: return less ? right : left;
    case ReduceOp::kBand: return left & right;
    case ReduceOp::kBor: return left | right;
    case ReduceOp::kBxor: return left ^ right;
    default: return (left + right) & Mask(type);
  }
}

Bits DivideInteger(DataType type, Bits value, int world_size) {
  if (!IsSigned(type)) return value / static_cast<Bits>(world_size);
  return static_cast<Bits>(SignExtended(type, value) / world_size) & Mask(type);
}

// Rounds each product to T, each sum to `type`, and finally the quotient to `type`.
template <typename T>
Bits ScaledAverage(DataType type, const std::vector<Bits>& operands, T scale, int divisor) {
  T sum = Load<T>(type, operands[0]) * scale;
  for (std::size_t i = 1; i < operands.size(); ++i) {
    sum += Load<T>(type, operands[i]) * scale;
    if (i + 1 < operands.size()) sum = Load<T>(type, Store<T>(type, sum));
  }
  return Store<T>(type, sum / (static_cast<T>(divisor) * scale));
}

Bits ReduceBool(ReduceOp op, Bits left_bits, Bits right_bits) {
  const bool left = left_bits != 0;
  const bool right = right_bits != 0;
  if (op == ReduceOp::kBxor) return left != right ? 1 : 0;
  return op == ReduceOp::kMin || op == ReduceOp::kBand ? left && right : left || right;
}

}  // namespace

Bits Reduce(DataType type, ReduceOp op, Bits left, Bits right) {
  if (type == DataType::kBool) return ReduceBool(op, left, right);
  if (type == DataType::kFloat64) return ReduceFloat<double>(type, op, left, right);
  if (IsFloating(type)) return ReduceFloat<float>(type, op, left, right);
  return ReduceInteger(type, op, left, right);
}

Bits SumAndDivide(DataType type, Bits left, Bits right, int world_size) {
  if (!IsFloating(type)) return DivideInteger(type, (left + right) & Mask(type), world_size);
  if (type == DataType::kFloat64)
    return Store<double>(type, (Load<double>(type, left) + Load<double>(type, right)) / world_size);
  return Store<float>(type, (Load<float>(type, left) + Load<float>(type, right)) / static_cast<float>(world_size));
}

Bits DivideBy(DataType type, Bits source, int world_size) {
  if (!IsFloating(type)) return DivideInteger(type, source, world_size);
  if (type == DataType::kFloat64) return Store<double>(type, Load<double>(type, source) / world_size);
  return Store<float>(type, Load<float>(type, source) / static_cast<float>(world_size));
}

Bits Average(DataType type, const std::vector<Bits>& operands, int divisor) {
  if (type == DataType::kFloat16) {
    float sum = Load<float>(type, operands[0]);
    for (std::size_t i = 1; i < operands.size(); ++i) sum += Load<float>(type, operands[i]);
    return Store<float>(type, sum / static_cast<float>(divisor));
  }
  if (!IsFloating(type)) {
    __extension__ using Wide = __int128;
    Wide sum = 0;
    for (const Bits operand : operands) sum += IsSigned(type) ? Wide{SignExtended(type, operand)} : Wide{operand};
    return static_cast<Bits>(sum / divisor) & Mask(type);
  }
  // Operands are scaled by a power of two, so that no sum exceeds the range of the type.
  double scale = 1;
  while (scale * divisor > 1) scale /= 2;
  if (type == DataType::kFloat64) return ScaledAverage<double>(type, operands, scale, divisor);
  return ScaledAverage<float>(type, operands, static_cast<float>(scale), divisor);
}

Bits SumScaledAndDivide(DataType type, Bits left, Bits right, double left_factor, double right_factor, double divisor) {
  const auto compute = [&]<typename T>(T) {
    const T a = Load<T>(type, left) * static_cast<T>(left_factor);
    const T b = Load<T>(type, right) * static_cast<T>(right_factor);
    return Store<T>(type, (a + b) / static_cast<T>(divisor));
  };
  return type == DataType::kFloat64 ? compute(double{}) : compute(float{});
}

Bits Scale(DataType type, Bits source, double factor) {
  if (type == DataType::kFloat64) return Store<double>(type, Load<double>(type, source) * factor);
  return Store<float>(type, Load<float>(type, source) * static_cast<float>(factor));
}

Bits FromDouble(DataType type, double value) {
  return type == DataType::kFloat64 ? Store<double>(type, value) : Store<float>(type, static_cast<float>(value));
}

std::vector<Bits> Corners(DataType type) {
  std::vector<Bits> corners;
  if (!IsFloating(type)) {
    const Bits all = Mask(type);
    const Bits top = all ^ (all >> 1);
    for (Bits value :
         {Bits{0}, Bits{1}, Bits{2}, all, all - 1, top, top - 1, top + 1, all / 3, all / 5, Bits{7}, Bits{100}})
      corners.push_back(value & all);
    return corners;
  }
  // The special values below are computed from the width of the fraction and the position of the sign.
  int fraction_bits = 52;
  if (type == DataType::kFloat32) fraction_bits = 23;
  if (type == DataType::kFloat16) fraction_bits = 10;
  if (type == DataType::kBfloat16) fraction_bits = 7;
  const Bits all = Mask(type);
  const Bits sign = all ^ (all >> 1);
  const Bits quiet = Bits{1} << (fraction_bits - 1);
  const Bits smallest_normal = Bits{1} << fraction_bits;
  const Bits infinity = (all >> 1) & ~(smallest_normal - 1);
  const Bits one = FromDouble(type, 1.0);
  const std::vector<Bits> magnitudes{
      0,
      1,
      2,
      3,
      smallest_normal - 1,  // the largest subnormal
      smallest_normal,
      smallest_normal + 1,
      infinity - 1,  // the largest finite value
      infinity - 2,
      infinity,
      infinity | 1,  // signalling
      infinity | quiet,
      infinity | quiet | 5,
      one - 1,
      one,
      one + 1,
      one + 2,
      FromDouble(type, 1.0 / 3),
      FromDouble(type, 2.0),
      FromDouble(type, 1e4),
      // Powers of two around the width of the fraction: added to 1 they are ties or almost ties.
      FromDouble(type, std::ldexp(1.0, -fraction_bits - 1)),
      FromDouble(type, std::ldexp(1.0, -fraction_bits - 2)),
      FromDouble(type, std::ldexp(1.5, -fraction_bits - 1)),
      FromDouble(type, 1e-3),
  };
  for (Bits magnitude : magnitudes) {
    corners.push_back(magnitude);
    corners.push_back(sign | magnitude);
  }
  return corners;
}

std::vector<Bits> AnyValues(DataType type, std::size_t count, Random& random) {
  const std::vector<Bits> corners = Corners(type);
  std::vector<Bits> values(count);
  for (Bits& value : values)
    value = random.Chance(0.5) ? corners[random.Below(corners.size())] : random.Next() & Mask(type);
  return values;
}

Bits LoadElement(DataType type, const std::byte* memory, std::size_t index) {
  Bits value = 0;
  std::memcpy(&value, memory + index * SizeOf(type), SizeOf(type));
  return value;
}

void StoreElement(DataType type, std::byte* memory, std::size_t index, Bits value) {
  std::memcpy(memory + index * SizeOf(type), &value, SizeOf(type));
}

std::vector<std::byte> Pack(DataType type, const std::vector<Bits>& values) {
  std::vector<std::byte> memory(values.size() * SizeOf(type));
  for (std::size_t i = 0; i < values.size(); ++i) StoreElement(type, memory.data(), i, values[i]);
  return memory;
}

std::string Print(DataType type, Bits value) {
  return fmt::format("{} {:#0{}x}", Name(type), value, 2 + 2 * SizeOf(type));
}

}  // namespace rondo::reference
