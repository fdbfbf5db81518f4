#include "tools/perf/checked_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/half.h"
#include "base/random.h"

namespace rondo {
namespace {

// The period of the data, a prime. A table of this many 8-byte elements fits into the second-level cache of a CPU core.
constexpr std::uint64_t kPeriodElements = 16381;
// In a shared table, the start of each rank is this many elements after the start of the rank before. It is another
// prime, so all starts differ.
constexpr std::uint64_t kStrideElements = 4099;

// The random number that belongs to an element of a rank.
std::uint64_t Hash(std::uint64_t index, Rank rank) {
  return Random(index * 0x9E37'79B9'7F4A'7C15u ^ (static_cast<std::uint64_t>(rank) + 1) * 0xC2B2'AE3D'27D4'EB4Fu)
      .Next();
}

// A rank's integer. The sum over `world_size` ranks stays within +-limit (for unsigned types, from 0 to limit). If
// the limit is smaller than the world size, only `limit` ranks contribute 1 (or -1), and the others 0. The ranks
// that contribute differ from element to element.
std::int64_t Summand(std::uint64_t index, Rank rank, int world_size, std::uint64_t limit, bool with_sign) {
  const std::uint64_t hash = Hash(index, rank);
  const std::uint64_t most = limit / static_cast<std::uint64_t>(world_size);
  if (most >= 1) {
    const std::uint64_t values = with_sign ? 2 * most + 1 : most + 1;
    return static_cast<std::int64_t>(hash % values) - (with_sign ? static_cast<std::int64_t>(most) : 0);
  }
  const bool contributes = (static_cast<std::uint64_t>(rank) + index) % static_cast<std::uint64_t>(world_size) < limit;
  if (!contributes) return 0;
  return with_sign && (hash & 1) != 0 ? -1 : 1;
}

// The range of a floating type. The type represents exactly the integers from -limit to +limit, and powers of two with
// exponents from -exponent to +exponent.
struct FloatRange {
  std::uint64_t limit;
  int exponent;
};
FloatRange RangeOf(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {std::uint64_t{1} << 11, 14};
    case DataType::kBfloat16: return {std::uint64_t{1} << 8, 126};
    case DataType::kFloat32: return {std::uint64_t{1} << 24, 126};
    default: return {std::uint64_t{1} << 53, 1022};
  }
}

// Encodes values of a floating type, and divides sums by the world size in that type.
struct Float16Code {
  using Bits = std::uint16_t;
  static Bits Encode(double value) { return ToFloat16(static_cast<float>(value)); }
  static Bits Average(double sum, int world) { return ToFloat16(static_cast<float>(sum) / static_cast<float>(world)); }
};
struct Bfloat16Code {
  using Bits = std::uint16_t;
  static Bits Encode(double value) { return ToBfloat16(static_cast<float>(value)); }
  static Bits Average(double sum, int world) { return ToBfloat16(static_cast<float>(sum) / static_cast<float>(world)); }
};
struct Float32Code {
  using Bits = std::uint32_t;
  static Bits Encode(double value) { return std::bit_cast<Bits>(static_cast<float>(value)); }
  static Bits Average(double sum, int world) {
    return std::bit_cast<Bits>(static_cast<float>(sum) / static_cast<float>(world));
  }
};
struct Float64Code {
  using Bits = std::uint64_t;
  static Bits Encode(double value) { return std::bit_cast<Bits>(value); }
  static Bits Average(double sum, int world) { return std::bit_cast<Bits>(sum / static_cast<double>(world)); }
};

// Whether the range is large enough for a pre-multiplied sum whose factors differ between ranks and whose products are
// exact. With such factors the check detects a factor that is missing, applied twice or swapped. If the range is too
// small, the factors are only signs.
bool HasRoomToScale(FloatRange range, int world_size) {
  return range.limit / static_cast<std::uint64_t>(world_size) >= 12;
}
double ScaleOf(FloatRange range, Rank rank, int world_size) {
  constexpr double kFactors[] = {2, 0.5, -1, 3, -0.5};
  if (!HasRoomToScale(range, world_size)) return rank % 2 == 0 ? 1 : -1;
  return kFactors[rank % 5];
}

// The input of a rank, as a number.
double FloatOperand(DataType type, ReduceOp op, std::uint64_t index, Rank rank, int world_size) {
  const FloatRange range = RangeOf(type);
  switch (op) {
    case ReduceOp::kProd: {
      const std::int64_t exponent = Summand(index, rank, world_size, static_cast<std::uint64_t>(range.exponent), true);
      const double magnitude = std::ldexp(1.0, static_cast<int>(exponent));
      return (Hash(index, rank) >> 63) != 0 ? -magnitude : magnitude;
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax: return static_cast<double>(Summand(index, rank, 1, range.limit, true)) / 8;
    case ReduceOp::kPremulSum:
      // The operand is even, so that its product with the factor 0.5 is exact. Summand gets only a sixth of the limit,
      // because its result is doubled here, and is later multiplied by a factor of up to 3.
      if (HasRoomToScale(range, world_size)) {
        return 2.0 * static_cast<double>(Summand(index, rank, world_size, range.limit / 6, true));
      }
      return static_cast<double>(Summand(index, rank, world_size, range.limit, true));
    default: return static_cast<double>(Summand(index, rank, world_size, range.limit, true));
  }
}

double FloatCombine(ReduceOp op, double left, double right) {
  switch (op) {
    case ReduceOp::kProd: return left * right;
    case ReduceOp::kMin: return std::min(left, right);
    case ReduceOp::kMax: return std::max(left, right);
    default: return left + right;
  }
}

template <typename Code>
CheckedData MakeFloatData(DataType type, ReduceOp op, int world_size, Rank rank, std::uint64_t period) {
  using Bits = typename Code::Bits;
  const FloatRange range = RangeOf(type);
  const auto factor = [&](Rank of) { return op == ReduceOp::kPremulSum ? ScaleOf(range, of, world_size) : 1.0; };
  std::vector<std::byte> input(period * sizeof(Bits)), output(period * sizeof(Bits));
  for (std::uint64_t i = 0; i < period; ++i) {
    double result = factor(0) * FloatOperand(type, op, i, 0, world_size);
    for (Rank other = 1; other < world_size; ++other) {
      result = FloatCombine(op, result, factor(other) * FloatOperand(type, op, i, other, world_size));
    }
    const Bits in = Code::Encode(FloatOperand(type, op, i, rank, world_size));
    const Bits out = op == ReduceOp::kAvg ? Code::Average(result, world_size) : Code::Encode(result);
    std::memcpy(&input[i * sizeof(Bits)], &in, sizeof in);
    std::memcpy(&output[i * sizeof(Bits)], &out, sizeof out);
  }
  return {RepeatedElements(std::move(input), sizeof(Bits)), RepeatedElements(std::move(output), sizeof(Bits)),
          factor(rank)};
}

// The largest sum that kAvg divides: the maximum of the type, or 2^62 (the most that Summand can handle) if that is
// less.
template <typename T>
constexpr std::uint64_t kMaxOf = std::min<std::uint64_t>(std::numeric_limits<T>::max(), std::uint64_t{1} << 62);

template <typename T>
T IntegerOperand(ReduceOp op, std::uint64_t index, Rank rank, int world_size) {
  const std::uint64_t hash = Hash(index, rank);
  const auto sparse = [&] {
    return hash & Hash(index + kPeriodElements, rank) & Hash(index + 2 * kPeriodElements, rank);
  };
  switch (op) {
    case ReduceOp::kProd: return static_cast<T>(hash | 1);  // odd factors keep every bit of information in the product
    case ReduceOp::kAvg: return static_cast<T>(Summand(index, rank, world_size, kMaxOf<T>, std::is_signed_v<T>));
    case ReduceOp::kBand: return static_cast<T>(~sparse());
    case ReduceOp::kBor: return static_cast<T>(sparse());
    default: return static_cast<T>(hash);
  }
}

template <typename T>
T IntegerCombine(ReduceOp op, T left, T right) {
  const auto a = static_cast<std::uint64_t>(static_cast<std::int64_t>(left));
  const auto b = static_cast<std::uint64_t>(static_cast<std::int64_t>(right));
  switch (op) {
    case ReduceOp::kProd: return static_cast<T>(a * b);
    case ReduceOp::kMin: return std::min(left, right);
    case ReduceOp::kMax: return std::max(left, right);
    case ReduceOp::kBand: return static_cast<T>(a & b);
    case ReduceOp::kBor: return static_cast<T>(a | b);
    case ReduceOp::kBxor: return static_cast<T>(a ^ b);
    default: return static_cast<T>(a + b);
  }
}

template <typename T>
T DividedBy(T sum, int world_size) {
  if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<std::int64_t>(sum) / world_size);
  return static_cast<T>(static_cast<std::uint64_t>(sum) / static_cast<std::uint64_t>(world_size));
}

template <typename T>
CheckedData MakeIntegerData(ReduceOp op, int world_size, Rank rank, std::uint64_t period) {
  std::vector<std::byte> input(period * sizeof(T)), output(period * sizeof(T));
  for (std::uint64_t i = 0; i < period; ++i) {
    T result = IntegerOperand<T>(op, i, 0, world_size);
    for (Rank other = 1; other < world_size; ++other) {
      result = IntegerCombine(op, result, IntegerOperand<T>(op, i, other, world_size));
    }
    if (op == ReduceOp::kAvg) result = DividedBy(result, world_size);
    const T in = IntegerOperand<T>(op, i, rank, world_size);
    std::memcpy(&input[i * sizeof(T)], &in, sizeof in);
    std::memcpy(&output[i * sizeof(T)], &result, sizeof result);
  }
  return {RepeatedElements(std::move(input), sizeof(T)), RepeatedElements(std::move(output), sizeof(T)), 1.0};
}

// The input is mostly true for conjunctions and mostly false for disjunctions, so that both results occur. Any non-zero
// byte is true, and a reduction makes it 1. With a single rank nothing is reduced, so true must already be 1 in the
// input.
std::uint8_t BoolOperand(ReduceOp op, std::uint64_t index, Rank rank, int world_size) {
  const std::uint64_t hash = Hash(index, rank);
  const bool rare = (hash & 7) == 0;
  const bool is_true = op == ReduceOp::kBxor                           ? (hash & 1) != 0
                       : op == ReduceOp::kBand || op == ReduceOp::kMin ? !rare
                                                                       : rare;
  if (!is_true) return 0;
  return world_size == 1 ? 1 : static_cast<std::uint8_t>(1 + (hash >> 8) % 255);
}

CheckedData MakeBoolData(ReduceOp op, int world_size, Rank rank, std::uint64_t period) {
  std::vector<std::byte> input(period), output(period);
  for (std::uint64_t i = 0; i < period; ++i) {
    bool result = BoolOperand(op, i, 0, world_size) != 0;
    for (Rank other = 1; other < world_size; ++other) {
      const bool right = BoolOperand(op, i, other, world_size) != 0;
      if (op == ReduceOp::kBxor) {
        result = result != right;
      } else {
        result = op == ReduceOp::kBand || op == ReduceOp::kMin ? result && right : result || right;
      }
    }
    input[i] = std::byte{BoolOperand(op, i, rank, world_size)};
    output[i] = std::byte{result};
  }
  return {RepeatedElements(std::move(input), 1), RepeatedElements(std::move(output), 1), 1.0};
}

std::uint64_t PeriodFor(std::uint64_t max_count) { return std::clamp<std::uint64_t>(max_count, 1, kPeriodElements); }

template <typename T>
T Load(Bytes element) {
  T value;
  std::memcpy(&value, element.data(), sizeof value);
  return value;
}

}  // namespace

RepeatedElements RepeatedElements::From(std::uint64_t index) const {
  RepeatedElements from = *this;
  from.begin_ = (begin_ + index % (period_->size() / element_bytes_) * element_bytes_) % period_->size();
  return from;
}

void RepeatedElements::Fill(MutableBytes destination) const {
  std::size_t begin = begin_;
  for (std::size_t at = 0; at < destination.size(); begin = 0) {
    const std::size_t bytes = std::min(period_->size() - begin, destination.size() - at);
    std::memcpy(destination.data() + at, period_->data() + begin, bytes);
    at += bytes;
  }
}

RepeatedElements::Difference RepeatedElements::Compare(Bytes actual) const {
  Difference difference;
  std::size_t begin = begin_;
  for (std::size_t at = 0; at < actual.size(); begin = 0) {
    const std::byte* const expected = period_->data() + begin;
    const std::size_t bytes = std::min(period_->size() - begin, actual.size() - at);
    const bool equal = std::memcmp(actual.data() + at, expected, bytes) == 0;
    for (std::size_t i = 0; i < bytes && !equal; i += element_bytes_) {
      if (std::memcmp(actual.data() + at + i, expected + i, element_bytes_) == 0) continue;
      if (difference.count == 0) difference.first_index = (at + i) / element_bytes_;
      ++difference.count;
    }
    at += bytes;
  }
  return difference;
}

Bytes RepeatedElements::At(std::uint64_t index) const {
  return Bytes(*period_).subspan(From(index).begin_, element_bytes_);
}

CheckedData MakeReduceData(DataType type, ReduceOp op, int world_size, Rank rank, std::uint64_t max_count) {
  RONDO_CHECK(CheckPairing(type, op).has_value());
  const std::uint64_t period = PeriodFor(max_count);
  switch (type) {
    case DataType::kInt8: return MakeIntegerData<std::int8_t>(op, world_size, rank, period);
    case DataType::kUint8: return MakeIntegerData<std::uint8_t>(op, world_size, rank, period);
    case DataType::kInt32: return MakeIntegerData<std::int32_t>(op, world_size, rank, period);
    case DataType::kUint32: return MakeIntegerData<std::uint32_t>(op, world_size, rank, period);
    case DataType::kInt64: return MakeIntegerData<std::int64_t>(op, world_size, rank, period);
    case DataType::kUint64: return MakeIntegerData<std::uint64_t>(op, world_size, rank, period);
    case DataType::kFloat16: return MakeFloatData<Float16Code>(type, op, world_size, rank, period);
    case DataType::kBfloat16: return MakeFloatData<Bfloat16Code>(type, op, world_size, rank, period);
    case DataType::kFloat32: return MakeFloatData<Float32Code>(type, op, world_size, rank, period);
    case DataType::kFloat64: return MakeFloatData<Float64Code>(type, op, world_size, rank, period);
    case DataType::kBool: return MakeBoolData(op, world_size, rank, period);
  }
  RONDO_CHECK(false, "data type {}", static_cast<int>(type));
}

MovedElements::MovedElements(DataType type) {
  RONDO_CHECK(SizeOf(type) <= sizeof(std::uint64_t), "data type {}", static_cast<int>(type));
  std::vector<std::byte> bytes(kPeriodElements * SizeOf(type));
  for (std::uint64_t i = 0; i < kPeriodElements; ++i) {
    std::uint64_t bits = Hash(i, 0);
    if (type == DataType::kBool) bits &= 1;
    std::memcpy(&bytes[i * SizeOf(type)], &bits, SizeOf(type));
  }
  all_ = RepeatedElements(std::move(bytes), SizeOf(type));
}

RepeatedElements MovedElements::Of(Rank rank) const {
  return all_.From(static_cast<std::uint64_t>(rank) * kStrideElements);
}

std::string FormatElement(DataType type, Bytes element) {
  switch (type) {
    case DataType::kInt8: return fmt::format("{}", static_cast<int>(Load<std::int8_t>(element)));
    case DataType::kUint8:
    case DataType::kBool: return fmt::format("{}", static_cast<int>(Load<std::uint8_t>(element)));
    case DataType::kInt32: return fmt::format("{}", Load<std::int32_t>(element));
    case DataType::kUint32: return fmt::format("{}", Load<std::uint32_t>(element));
    case DataType::kInt64: return fmt::format("{}", Load<std::int64_t>(element));
    case DataType::kUint64: return fmt::format("{}", Load<std::uint64_t>(element));
    case DataType::kFloat16: return fmt::format("{}", FromFloat16(Load<std::uint16_t>(element)));
    case DataType::kBfloat16: return fmt::format("{}", FromBfloat16(Load<std::uint16_t>(element)));
    case DataType::kFloat32: return fmt::format("{}", Load<float>(element));
    case DataType::kFloat64: return fmt::format("{}", Load<double>(element));
  }
  return "?";
}

}  // namespace rondo
