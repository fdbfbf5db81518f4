// User-defined operations: what they compute, in which order and on what memory, and what ranks must agree on.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "tests/engine/late_mover.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace user_operations_test {

// The map x -> slope * x + offset, modulo 2^32, stored in one uint64. The composition of maps is associative, but does
// not commute.
struct Map {
  std::uint32_t slope = 1, offset = 0;
  bool operator==(const Map&) const = default;
};
Map After(const Map& first, const Map& then) {
  return {first.slope * then.slope, first.offset * then.slope + then.offset};
}

Map MapOf(Rank rank, std::size_t i) {
  return {static_cast<std::uint32_t>(3 + 2 * rank + 10 * static_cast<int>(i % 5)),
          static_cast<std::uint32_t>(7 * rank + 1)};
}

UserOperation Compose() {
  return {.name = "compose",
          .commutative = false,
          .combine = [](const void* left, const void* right, void* output, std::size_t elements, DataType type) {
            REQUIRE(type == DataType::kUint64);
            const auto* a = static_cast<const Map*>(left);
            const auto* b = static_cast<const Map*>(right);
            auto* out = static_cast<Map*>(output);
            for (std::size_t i = 0; i < elements; ++i) out[i] = After(a[i], b[i]);
          }};
}

UserOperation LargestMagnitude() {
  return {.name = "largest magnitude",
          .commutative = true,
          .combine = [](const void* left, const void* right, void* output, std::size_t elements, DataType) {
            const auto* a = static_cast<const float*>(left);
            const auto* b = static_cast<const float*>(right);
            auto* out = static_cast<float*>(output);
            for (std::size_t i = 0; i < elements; ++i) out[i] = std::abs(a[i]) < std::abs(b[i]) ? b[i] : a[i];
          }};
}

// The composition of all ranks' maps for element i, in rank order.
Map Composed(int world, std::size_t i) {
  Map all = MapOf(0, i);
  for (Rank rank = 1; rank < world; ++rank) all = After(all, MapOf(rank, i));
  return all;
}

TEST_CASE("a function that throws fails the operation: here with what was thrown, elsewhere as this rank's abort") {
  for (const Rank thrower : {0, 1, 2}) {
    InprocNetwork network(3, {.ring_bytes = 1024});
    OnRanks(network, [&](Communicator& communicator) {
      const Rank rank = communicator.rank();
      const auto add = [&](const void* left, const void* right, void* output, std::size_t elements, DataType) {
        if (rank == thrower) throw std::runtime_error("no more");
        for (std::size_t i = 0; i < elements; ++i)
          static_cast<float*>(output)[i] = static_cast<const float*>(left)[i] + static_cast<const float*>(right)[i];
      };
      const auto op = communicator.DefineOperation({.name = "thrower", .combine = add});
      REQUIRE(op);
      std::vector<float> values(1000, 1);
      const Status status = communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32, *op,
                                                   {.algorithm = Algorithm::kRing});  // every rank reduces
      REQUIRE_FALSE(status);
      CHECK(status.error().code() == (rank == thrower ? ErrorCode::kAborted : ErrorCode::kPeerAborted));
      CHECK(status.error().culprit() == thrower);
      CHECK_MESSAGE(status.error().ToString().find("operation 'thrower' threw: no more") != std::string::npos,
                    status.error().ToString());
    });
  }
}

TEST_CASE(
    "an operation that does not commute composes the ranks' operands in rank order, by every algorithm that may") {
  for (const int world : {1, 2, 3, 4, 5, 7, 8}) {
    InprocNetwork network(world, {.ring_bytes = 1024, .late_release = true, .slice_bytes = 50});
    OnRanks(network, [&](Communicator& communicator) {
      const auto op = communicator.DefineOperation(Compose());
      REQUIRE(op);
      const Rank rank = communicator.rank();
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        if (!Reduces(entry.collective)) continue;
        const OperationOptions options{.algorithm = entry.algorithm};
        const auto blocks = static_cast<std::size_t>(entry.collective == Collective::kReduceScatter ? world : 1);
        for (const std::size_t count : {1, 6, 100}) {
          std::vector<Map> input(count * blocks), output(count);
          for (std::size_t i = 0; i < input.size(); ++i) input[i] = MapOf(rank, i);
          Status status;
          std::size_t first = 0;
          if (entry.collective == Collective::kAllReduce) {
            status = communicator.AllReduce(input.data(), output.data(), count, DataType::kUint64, *op, options);
          } else if (entry.collective == Collective::kReduce) {
            status =
                communicator.Reduce(input.data(), output.data(), count, DataType::kUint64, *op, world - 1, options);
          } else {
            status = communicator.ReduceScatter(input.data(), output.data(), count, DataType::kUint64, *op, options);
            first = static_cast<std::size_t>(rank) * count;
          }
          CAPTURE(std::string(Name(entry.algorithm)));
          CAPTURE(TextOf(status));
          if (!entry.traits.rank_order && !entry.traits.left_fold) {
            CHECK((!status && status.error().code() == ErrorCode::kInvalidArgument));
            CHECK(TextOf(status).find("does not commute") != std::string::npos);
            continue;
          }
          CHECK(status);
          if (entry.collective == Collective::kReduce && rank != world - 1) continue;
          bool right = true;
          for (std::size_t i = 0; i < count; ++i) right &= output[i] == Composed(world, first + i);
          CHECK(right);
        }
      }
      // The automatic choice must select an algorithm that keeps the rank order.
      std::vector<Map> values(3000);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = MapOf(rank, i);
      CHECK(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kUint64, *op));
      CHECK(values[2999] == Composed(world, 2999));
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("a user's function gets aligned memory, wherever the user's buffers and the wire have put the elements") {
  InprocNetwork network(3, {.ring_bytes = 512, .slice_bytes = 7});
  std::atomic<int> calls{0}, misaligned{0};
  OnRanks(network, [&](Communicator& communicator) {
    const auto op = communicator.DefineOperation(
        {.name = "sum of double",
         .combine = [&](const void* left, const void* right, void* output, std::size_t elements, DataType) {
           calls.fetch_add(1);
           for (const void* pointer : {left, right, const_cast<const void*>(output)})
             if (reinterpret_cast<std::uintptr_t>(pointer) % alignof(double) != 0) misaligned.fetch_add(1);
           for (std::size_t i = 0; i < elements; ++i)
             static_cast<double*>(output)[i] =
                 static_cast<const double*>(left)[i] + static_cast<const double*>(right)[i];
         }});
    REQUIRE(op);
    constexpr std::size_t kCount = 1500;
    std::vector<std::byte> odd(kCount * sizeof(double) + 1);
    const double one = 1 + communicator.rank();
    for (std::size_t i = 0; i < kCount; ++i) std::memcpy(odd.data() + 1 + i * sizeof one, &one, sizeof one);
    CHECK(communicator.AllReduce(odd.data() + 1, odd.data() + 1, kCount, DataType::kFloat64, *op));
    bool right = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum;
      std::memcpy(&sum, odd.data() + 1 + i * sizeof sum, sizeof sum);
      right &= sum == 6;
    }
    CHECK(right);
    CHECK(communicator.Close());
  });
  CHECK(calls.load() > 0);
  CHECK(misaligned.load() == 0);
}

TEST_CASE("users' operations and others take turns, several are distinguished, and a split-off group has them too") {
  InprocNetwork network(4);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        const auto compose = communicator.DefineOperation(Compose());
        const auto largest = communicator.DefineOperation(LargestMagnitude());
        REQUIRE(compose);
        REQUIRE(largest);
        CHECK(*compose == UserOp(0));
        CHECK(*largest == UserOp(1));
        auto group = communicator.Split(communicator.rank() % 2, communicator.rank());
        REQUIRE(group);
        for (int round = 0; round < 3; ++round) {
          float value = communicator.rank() == 2 ? -9.0f : 1.0f;
          CHECK(communicator.AllReduce(&value, &value, 1, DataType::kFloat32, *largest));
          CHECK(value == -9.0f);
          value = 1;
          CHECK(communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum));
          CHECK(value == 4.0f);
          Map map = MapOf((*group)->rank(), 0);
          CHECK((*group)->AllReduce(&map, &map, 1, DataType::kUint64, *compose));
          CHECK(map == Composed(2, 0));
        }
        CHECK((*group)->Close());
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.make_mover = [] { return std::make_unique<LateMover>(3); }; });
}

TEST_CASE("ranks that define different operations all get both names, and go on") {
  InprocNetwork network(3);
  std::mutex mutex;
  std::vector<std::string> texts;
  OnRanks(network, [&](Communicator& communicator) {
    UserOperation operation = LargestMagnitude();
    if (communicator.rank() == 1) operation.name = "smallest magnitude";
    const auto op = communicator.DefineOperation(operation);
    REQUIRE(!op);
    {
      const std::lock_guard lock(mutex);
      texts.push_back(op.error().ToString());
    }
    operation.name = "largest magnitude";
    operation.commutative = communicator.rank() != 2;
    const auto second = communicator.DefineOperation(operation);
    REQUIRE(!second);
    CHECK(second.error().message().find("not commutative") != std::string::npos);
    operation.commutative = true;
    CHECK(communicator.DefineOperation(operation));
    CHECK(communicator.Close());
  });
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("mismatch") == 0);
    CHECK(text.find("rank 0 defines operation user_0 'largest magnitude'") != std::string::npos);
    CHECK(text.find("rank 1 defines user_0 'smallest magnitude'") != std::string::npos);
  }
}

TEST_CASE("an operation without a name or a function is refused") {
  InprocNetwork network(1);
  OnRanks(network, [&](Communicator& communicator) {
    UserOperation operation = Compose();
    const auto code = [&] { return communicator.DefineOperation(operation).error().code(); };
    operation.name = "";
    CHECK(code() == ErrorCode::kInvalidArgument);
    operation.name = std::string(kMaxUserOperationNameBytes + 1, 'x');
    CHECK(code() == ErrorCode::kInvalidArgument);
    operation.name = "nothing";
    operation.combine = nullptr;
    CHECK(code() == ErrorCode::kInvalidArgument);
    for (int i = 0; i < kMaxUserOps; ++i) CHECK(communicator.DefineOperation(Compose()));
    operation = Compose();
    CHECK(code() == ErrorCode::kResource);
    CHECK(communicator.Close());
  });
}

}  // namespace user_operations_test
}  // namespace rondo
