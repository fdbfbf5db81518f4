// The data of `rondo perf` guarantees that a result has exactly one correct bit pattern, for any order and grouping of
// the reduction. This test checks the guarantee with reductions in random orders and groupings, rounded to the type
// after every step. These reductions are written in the simplest way, and share no code with the computation of the
// expected result.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "tools/perf/checked_data.h"

namespace rondo {
namespace perf_data_test {

template <typename T>
T As(Bytes element) {
  T value;
  if (element.size() != sizeof value) FAIL("an element of the wrong size");
  std::memcpy(&value, element.data(), sizeof value);
  return value;
}

// A 16-bit float that rounds after every operation.
template <float (*From)(std::uint16_t), std::uint16_t (*To)(float)>
struct Half {
  std::uint16_t bits = 0;
  float value() const { return From(bits); }
  static Half Of(float value) { return {To(value)}; }
  friend Half operator+(Half a, Half b) { return Of(a.value() + b.value()); }
  friend Half operator*(Half a, Half b) { return Of(a.value() * b.value()); }
  friend bool operator<(Half a, Half b) { return a.value() < b.value(); }
  Half Scaled(double by) const { return Of(value() * static_cast<float>(by)); }
  Half Divided(int by) const { return Of(value() / static_cast<float>(by)); }
};
using Float16 = Half<FromFloat16, ToFloat16>;
using Bfloat16 = Half<FromBfloat16, ToBfloat16>;

struct Bool {
  std::uint8_t byte = 0;
  bool truth() const { return byte != 0; }
};

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, Bool>) {
    const auto of = [](bool truth) { return Bool{truth}; };
    if (op == ReduceOp::kBxor) return of(a.truth() != b.truth());
    if (op == ReduceOp::kMin || op == ReduceOp::kBand) return of(a.truth() && b.truth());
    return of(a.truth() || b.truth());
  } else {
    if (op == ReduceOp::kMin) return b < a ? b : a;
    if (op == ReduceOp::kMax) return a < b ? b : a;
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::uint64_t;
      switch (op) {
        case ReduceOp::kProd: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
        case ReduceOp::kBand: return static_cast<T>(a & b);
        case ReduceOp::kBor: return static_cast<T>(a | b);
        case ReduceOp::kBxor: return static_cast<T>(a ^ b);
        default: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
      }
    } else {
      return op == ReduceOp::kProd ? a * b : a + b;
    }
  }
}

template <typename T>
T Scaled(T value, double by) {
  if constexpr (std::is_floating_point_v<T>) return value * static_cast<T>(by);
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) return value.Scaled(by);
  return value;
}
template <typename T>
T Divided(T value, int by) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) return value.Divided(by);
  if constexpr (std::is_floating_point_v<T>) return value / static_cast<T>(by);
  if constexpr (std::is_signed_v<T>) return static_cast<T>(value / by);
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(value / static_cast<std::uint64_t>(by));
  return value;
}

// The elements at `index` of all ranks, reduced pair by pair in a random order.
template <typename T>
T ReduceSomehow(const std::vector<CheckedData>& ranks, ReduceOp op, std::uint64_t index, Random& random) {
  std::vector<T> values;
  for (const CheckedData& data : ranks) {
    const T value = As<T>(data.input.At(index));
    values.push_back(op == ReduceOp::kPremulSum ? Scaled(value, data.scale) : value);
  }
  while (values.size() > 1) {
    const std::size_t a = random.Below(values.size());
    const T left = values[a];
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(a));
    T& right = values[random.Below(values.size())];
    right = Combine(op, left, right);
  }
  return op == ReduceOp::kAvg ? Divided(values[0], static_cast<int>(ranks.size())) : values[0];
}

template <typename T>
void ExpectOneResult(DataType type, ReduceOp op, int world_size, std::uint64_t elements) {
  std::vector<CheckedData> ranks;
  for (Rank rank = 0; rank < world_size; ++rank) ranks.push_back(MakeReduceData(type, op, world_size, rank, elements));
  Random random(1);
  std::set<std::string> results;
  for (std::uint64_t i = 0; i < elements; ++i) {
    const T result = ReduceSomehow<T>(ranks, op, i, random);
    const Bytes expected = ranks[i % ranks.size()].output.At(i);
    const auto given = std::as_bytes(std::span(&result, 1));
    if (!std::equal(given.begin(), given.end(), expected.begin())) {  // compares bits, not values
      FAIL(fmt::format("{} {} among {} ranks, element {}: {} but expected {}", Name(type), Name(op), world_size, i,
                       FormatElement(type, given), FormatElement(type, expected)));
    }
    results.insert(ToText(expected));
  }
  if (world_size <= 8) CHECK(results.size() > 1);  // with very many ranks a conjunction is 0 for every element
}

void ExpectOneResult(DataType type, ReduceOp op, int world_size, std::uint64_t elements) {
  switch (type) {
    case DataType::kInt8: return ExpectOneResult<std::int8_t>(type, op, world_size, elements);
    case DataType::kUint8: return ExpectOneResult<std::uint8_t>(type, op, world_size, elements);
    case DataType::kInt32: return ExpectOneResult<std::int32_t>(type, op, world_size, elements);
    case DataType::kUint32: return ExpectOneResult<std::uint32_t>(type, op, world_size, elements);
    case DataType::kInt64: return ExpectOneResult<std::int64_t>(type, op, world_size, elements);
    case DataType::kUint64: return ExpectOneResult<std::uint64_t>(type, op, world_size, elements);
    case DataType::kFloat16: return ExpectOneResult<Float16>(type, op, world_size, elements);
    case DataType::kBfloat16: return ExpectOneResult<Bfloat16>(type, op, world_size, elements);
    case DataType::kFloat32: return ExpectOneResult<float>(type, op, world_size, elements);
    case DataType::kFloat64: return ExpectOneResult<double>(type, op, world_size, elements);
    case DataType::kBool: return ExpectOneResult<Bool>(type, op, world_size, elements);
  }
}

template <typename Visit>
void ForEachPairing(Visit visit) {
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps)
      if (CheckPairing(type, op)) visit(type, op);
}

std::size_t DifferingElements(DataType type, const RepeatedElements& a, const RepeatedElements& b, std::size_t count) {
  std::vector<std::byte> elements(count * SizeOf(type));
  a.Fill(elements);
  return b.Compare(elements).count;
}

TEST_CASE("a reduction gives the expected bits in every order and grouping") {
  ForEachPairing([](DataType type, ReduceOp op) {
    for (const int world_size : {1, 2, 3, 5, 8}) ExpectOneResult(type, op, world_size, 300);
  });
}

TEST_CASE("a reduction among more ranks than a narrow type can count gives the expected bits in every order") {
  ForEachPairing([](DataType type, ReduceOp op) { ExpectOneResult(type, op, 300, 40); });
}

TEST_CASE("a contribution that is missing, doubled or another rank's is seen in most elements or at least some") {
  constexpr std::size_t kCount = 200;
  ForEachPairing([](DataType type, ReduceOp op) {
    const CheckedData first = MakeReduceData(type, op, 4, 0, kCount);
    const CheckedData second = MakeReduceData(type, op, 4, 1, kCount);
    CAPTURE(std::string(Name(type)));
    CAPTURE(std::string(Name(op)));
    CHECK(DifferingElements(type, first.input, second.input, kCount) > kCount / 20);
    CHECK(DifferingElements(type, first.input, first.output, kCount) > kCount / 20);
    CHECK(DifferingElements(type, first.output, second.output, kCount) == 0);
  });
}

TEST_CASE("every rank's factor of a pre-multiplied sum matters") {
  for (Rank rank = 0; rank < 4; ++rank) {
    const double scale = MakeReduceData(DataType::kFloat16, ReduceOp::kPremulSum, 4, rank, 100).scale;
    CHECK(scale != 1.0);
    CHECK(MakeReduceData(DataType::kFloat16, ReduceOp::kSum, 4, rank, 100).scale == 1.0);
  }
}

TEST_CASE("what ranks move differs from rank to rank, in any type") {
  for (const DataType type : kAllDataTypes) {
    const MovedElements moved(type);
    for (Rank rank = 1; rank < 40; ++rank) CHECK(DifferingElements(type, moved.Of(0), moved.Of(rank), 1000) > 100);
    CHECK(DifferingElements(type, moved.Of(7), MovedElements(type).Of(7), 1000) == 0);
  }
}

TEST_CASE("elements that begin further on are those of the whole from there") {
  const RepeatedElements all = MovedElements(DataType::kInt32).Of(3);
  constexpr std::size_t kCount = 40'000;
  std::vector<std::byte> elements(kCount * 4);
  all.Fill(elements);
  for (const std::size_t first : {0u, 1u, 16'380u, 16'381u, 16'382u, 20'000u, 39'999u}) {
    CHECK(all.From(first).Compare(Bytes(elements).subspan(first * 4)).count == 0);
    CHECK(ToText(all.From(first).At(0)) == ToText(Bytes(elements).subspan(first * 4, 4)));
    std::vector<std::byte> rest(elements.size() - first * 4);
    all.From(first).Fill(rest);
    CHECK(ToText(rest) == ToText(Bytes(elements).subspan(first * 4)));
  }
}

TEST_CASE("comparing finds each wrong element once, wherever it lies, by any bit") {
  const CheckedData data = MakeReduceData(DataType::kInt32, ReduceOp::kSum, 2, 0, 1 << 20);
  std::vector<std::byte> elements(100'000 * 4);
  data.output.Fill(elements);
  CHECK(data.output.Compare(elements).count == 0);
  for (const std::size_t index : {99'999u, 16'381u, 16'380u, 1u, 0u}) {
    elements[index * 4 + 3] ^= std::byte{0x80};
    CHECK(data.output.Compare(elements).first_index == index);
  }
  CHECK(data.output.Compare(elements).count == 5);
}

TEST_CASE("a chunk in a neighbouring chunk's place is seen for all common numbers of chunks") {
  const CheckedData data = MakeReduceData(DataType::kUint8, ReduceOp::kSum, 2, 0, 1 << 20);
  constexpr std::size_t kCount = 1 << 17;
  std::vector<std::byte> elements(kCount);
  for (std::size_t chunks = 2; chunks <= 64; ++chunks) {
    data.output.Fill(elements);
    const std::size_t length = kCount / chunks;
    std::memcpy(elements.data(), elements.data() + length, length);
    CHECK(data.output.Compare(elements).count > length / 2);
  }
}

TEST_CASE("no elements are filled and compared without a look at memory") {
  const CheckedData data = MakeReduceData(DataType::kFloat64, ReduceOp::kSum, 2, 0, 0);
  data.input.Fill({});
  CHECK(data.output.Compare({}).count == 0);
}

}  // namespace perf_data_test
}  // namespace rondo
