// Results of operations: the right values, and the same bits on all ranks, for every method of waiting and every kind
// of memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/communicator.h"
#include "tests/engine/late_mover.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace results_test {

// doctest's asserts are thread-safe, but the rest of doctest is not. So every check here is on plain values, such as
// texts and numbers.

TEST_CASE("every rank holds the sum, in place and out of place, blocking and asynchronous") {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    InprocNetwork network(ranks);
    OnRanks(network, [&](Communicator& communicator) {
      const int sum_of_ranks = ranks * (ranks - 1) / 2;
      for (const std::size_t count : {0, 1, 5, 1000, 100'000}) {
        std::vector<std::int32_t> input(count), output(count);
        for (std::size_t i = 0; i < count; ++i) input[i] = communicator.rank() + static_cast<int>(i);
        const std::vector<std::int32_t> untouched = input;
        CHECK(communicator.AllReduce(input.data(), output.data(), count, DataType::kInt32, ReduceOp::kSum));
        bool right = true;
        for (std::size_t i = 0; i < count; ++i) right &= output[i] == sum_of_ranks + ranks * static_cast<int>(i);
        CHECK(right);
        CHECK(input == untouched);
        Work work = communicator.AllReduceAsync(input.data(), input.data(), count, DataType::kInt32, ReduceOp::kSum);
        CHECK(work.Wait());
        CHECK(input == output);
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("a broadcast gives everybody the root's values, from every root") {
  InprocNetwork network(4);
  OnRanks(network, [&](Communicator& communicator) {
    for (Rank root = 0; root < 4; ++root) {
      std::vector<double> values(777, communicator.rank() * 1.5);
      const void* input = communicator.rank() == root ? values.data() : nullptr;
      CHECK(communicator.Broadcast(input, values.data(), values.size(), DataType::kFloat64, root));
      CHECK(values == std::vector<double>(777, root * 1.5));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("no rank leaves a barrier before every rank has entered") {
  for (const int ranks : {2, 3, 5}) {
    InprocNetwork network(ranks);
    std::atomic<int> entered{0};
    OnRanks(network, [&](Communicator& communicator) {
      for (int round = 1; round <= 200; ++round) {
        entered.fetch_add(1);
        CHECK(communicator.Barrier());
        CHECK(entered.load() >= round * ranks);
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("back-to-back asynchronous operations on one buffer happen one after the other") {
  InprocNetwork network(3);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int64_t> values(100, 1);
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i)
      works.push_back(
          communicator.AllReduceAsync(values.data(), values.data(), values.size(), DataType::kInt64, ReduceOp::kSum));
    CHECK(works.back().Wait());
    std::int64_t expected = 1;
    for (int i = 0; i < 20; ++i) expected *= 3;
    CHECK(values == std::vector<std::int64_t>(100, expected));
    for (Work& work : works) {
      const std::optional<Status> status = work.Test();
      CHECK((status && *status));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("the results have the same bits on every rank and in every repetition") {
  InprocNetwork network(5);
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> results;
  OnRanks(network, [&](Communicator& communicator) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling, Algorithm::kRecursiveHalving}) {
      std::vector<std::uint32_t> bits;
      for (int repetition = 0; repetition < 3; ++repetition) {
        std::vector<float> values(999);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 1.0f / static_cast<float>(1 + i * 7 + 13 * static_cast<std::size_t>(communicator.rank()));
        CHECK(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum,
                                     {.algorithm = algorithm}));
        std::vector<std::uint32_t> now(values.size());
        std::memcpy(now.data(), values.data(), 4 * values.size());
        if (repetition > 0) CHECK(now == bits);
        bits = now;
      }
      const std::lock_guard lock(mutex);
      bits.push_back(static_cast<std::uint32_t>(algorithm));
      results.push_back(bits);
    }
    CHECK(communicator.Close());
  });
  for (const auto& a : results)
    for (const auto& b : results)
      if (a.back() == b.back()) CHECK(a == b);
}

TEST_CASE("wrong arguments are refused at the call and fail nothing else") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::array<float, 8> a{}, b{};
    const auto code = [](const Status& status) { return status ? ErrorCode::kInternal : status.error().code(); };
    CHECK(code(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kBand)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(nullptr, b.data(), 8, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), a.data() + 4, 8, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), b.data(), ~std::uint64_t{0} / 2, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.Broadcast(a.data(), b.data(), 8, DataType::kFloat32, 2)) == ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kSum,
                                      {.algorithm = Algorithm::kDissemination})) == ErrorCode::kInvalidArgument);
    Work refused = communicator.BroadcastAsync(a.data(), b.data(), 8, DataType::kFloat32, -1);
    CHECK(code(refused.Wait()) == ErrorCode::kInvalidArgument);
    CHECK(refused.sequence() == 0);
    CHECK(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kSum));
    CHECK(communicator.Close());
  });
}

TEST_CASE("a mover that works late is waited for") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::int32_t> values(3000, 1);
        for (int i = 0; i < 3; ++i)
          CHECK(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kInt32, ReduceOp::kMax));
        CHECK(values[2999] == 1);
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.make_mover = [] { return std::make_unique<LateMover>(5); }; });
}

TEST_CASE("allocated memory serves as a buffer and registrations end with their owner") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    auto memory = communicator.Allocate(4096);
    REQUIRE(memory);
    const MutableBytes bytes = (*memory)->bytes();
    CHECK(bytes.size() == 4096);
    auto* values = reinterpret_cast<std::int32_t*>(bytes.data());
    std::fill_n(values, 1024, 3);
    auto registration = communicator.Register(bytes);
    CHECK(registration);
    CHECK(communicator.AllReduce(values, values, 1024, DataType::kInt32, ReduceOp::kMax));
    CHECK(values[1023] == 3);
    CHECK(communicator.Close());
  });
}

}  // namespace results_test
}  // namespace rondo
