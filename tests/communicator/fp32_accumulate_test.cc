// fp32_accumulate: reductions of 16-bit floats that keep partial results in float32, and round once, at the end.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "tests/communicator/plain.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace fp32_accumulate_test {

using Halves = std::vector<std::uint16_t>;

struct Half {
  DataType type;
  std::uint16_t (*narrow)(float);
  float (*widen)(std::uint16_t);
};
constexpr Half kHalves[] = {{DataType::kFloat16, ToFloat16, FromFloat16},
                            {DataType::kBfloat16, ToBfloat16, FromBfloat16}};

// Multiples of 1/64, below 128 for float16 and below 16 for bfloat16. They are exact in their type, and sums of a few
// of them are exact in float32 in any order. If a sum is rounded to 16 bits in between, the result often differs.
float Operand(const Half& half, Rank rank, std::size_t i) {
  const int bits = half.type == DataType::kFloat16 ? 10 : 7;
  Random random(77 * static_cast<std::uint64_t>(rank) + i + 1);
  const auto fraction = static_cast<float>(random.Below(std::uint64_t{1} << bits));
  return std::ldexp(fraction, static_cast<int>(random.Below(4)) - 6) * (random.Chance(0.5) ? 1.0f : -1.0f);
}

std::uint16_t RoundedOnce(const Half& half, ReduceOp op, int world, std::size_t i) {
  const float scale = op == ReduceOp::kPremulSum ? 0.5f : 1.0f;
  float sum = Operand(half, 0, i) * scale;  // begins with rank 0's operand instead of 0, because 0 + -0 is 0 and not -0
  for (Rank rank = 1; rank < world; ++rank) sum += Operand(half, rank, i) * scale;
  return half.narrow(op == ReduceOp::kAvg ? sum / static_cast<float>(world) : sum);
}

// Whether this rank's part of the result of one reduction was rounded once.
bool IsRoundedOnce(Communicator& communicator, const Half& half, ReduceOp op, const AlgorithmEntry& entry,
                   bool in_place, bool wide) {
  const Rank rank = communicator.rank();
  const int world = communicator.world_size();
  plain::Case c;
  c.collective = entry.collective;
  c.algorithm = entry.algorithm;
  c.root = world - 1;
  c.in_place = in_place && (entry.collective != Collective::kReduce || rank == c.root);
  constexpr std::size_t kCount = 210;
  const bool scatters = entry.collective == Collective::kReduceScatter;
  c.counts.assign(static_cast<std::size_t>(world), kCount);
  Halves input(scatters ? kCount * static_cast<std::size_t>(world) : kCount);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = half.narrow(Operand(half, rank, i));
  const Halves before = input;
  Halves apart(kCount);
  const std::size_t first = scatters ? static_cast<std::size_t>(rank) * kCount : 0;
  std::uint16_t* const output = c.in_place ? input.data() + first : apart.data();
  const Status status =
      plain::Issue(communicator, c, input.data(), output, half.type, op, {.scale = 0.5, .fp32_accumulate = wide})
          .Wait();
  CAPTURE(TextOf(status));
  CHECK(status);
  if (!c.in_place) CHECK(input == before);
  if (entry.collective == Collective::kReduce && rank != c.root) return true;
  for (std::size_t i = 0; i < kCount; ++i)
    if (output[i] != RoundedOnce(half, op, world, first + i)) return false;
  return true;
}

TEST_CASE("sums, averages and pre-multiplied sums of 16-bit floats are rounded once, by every algorithm") {
  for (const int world : {1, 2, 3, 5}) {
    InprocNetwork network(world, {.ring_bytes = 1024, .slice_bytes = 77});
    OnRanks(network, [](Communicator& communicator) {
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        if (!Reduces(entry.collective)) continue;
        for (const Half& half : kHalves)
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum})
            for (const bool in_place : {false, true}) {
              CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
              CAPTURE(std::string(Name(half.type)) + " " + std::string(Name(op)) + (in_place ? " in place" : ""));
              CHECK(IsRoundedOnce(communicator, half, op, entry, in_place, true));
            }
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("without it the same data is rounded more than once, so that the test above can fail") {
  InprocNetwork network(5);
  OnRanks(network, [](Communicator& communicator) {
    for (const Half& half : kHalves)
      CHECK(!IsRoundedOnce(communicator, half, ReduceOp::kSum, *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing),
                           false, false));
    CHECK(communicator.Close());
  });
}

TEST_CASE("the communicator's option stands for every operation that does not say otherwise, other types go as ever") {
  InprocNetwork network(3);
  OnRanks(
      network,
      [](Communicator& communicator) {
        // 1 + 2^-11 + 2^-11: in float16 each small summand alone is rounded away, but not their sum.
        const Halves tiny{ToFloat16(communicator.rank() == 0 ? 1.0f : 0x1p-11f)};
        Halves sum(1);
        CHECK(communicator.AllReduce(tiny.data(), sum.data(), 1, DataType::kFloat16, ReduceOp::kSum,
                                     {.algorithm = Algorithm::kChain}));
        CHECK(FromFloat16(sum[0]) == 1.0f + 0x1p-10f);
        CHECK(communicator.AllReduce(tiny.data(), sum.data(), 1, DataType::kFloat16, ReduceOp::kSum,
                                     {.algorithm = Algorithm::kChain, .fp32_accumulate = false}));
        CHECK(FromFloat16(sum[0]) == 1.0f);
        CHECK(communicator.AllReduce(tiny.data(), sum.data(), 1, DataType::kFloat16, ReduceOp::kMax));
        CHECK(FromFloat16(sum[0]) == 1.0f);
        std::int32_t one = 1;
        CHECK(communicator.AllReduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum));
        CHECK(one == 3);
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.fp32_accumulate = true; });
}

TEST_CASE("an operation with fp32_accumulate that needs more scratch than its limit is refused with both numbers") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [](Communicator& communicator) {
        Halves values(1000);
        const Status status =
            communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat16, ReduceOp::kSum);
        CAPTURE(TextOf(status));
        REQUIRE(!status);
        CHECK(status.error().code() == ErrorCode::kResource);
        CHECK(TextOf(status).find("4000 bytes; the limit (max_scratch_bytes) is 2000") != std::string::npos);
      },
      [](CommunicatorOptions& options) {
        options.fp32_accumulate = true;
        options.max_scratch_bytes = 2000;
      });
}

}  // namespace fp32_accumulate_test
}  // namespace rondo
