// Collectives through a board: every result, whatever the order in which the ranks come and however late memory moves.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "collectives/engine/board_path.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/engine/world.h"

namespace rondo {
namespace {

constexpr std::array kServed{Collective::kBarrier,   Collective::kAllReduce,     Collective::kReduce,
                             Collective::kBroadcast, Collective::kAllGather,     Collective::kGather,
                             Collective::kScatter,   Collective::kReduceScatter, Collective::kAllToAll};

struct Sizes {
  std::size_t part_bytes;
  std::vector<std::uint64_t> counts;
};

// Everything on the board of a world, in and out of place; roots take turns.
void RunAll(EngineWorld& world, int ranks, const std::vector<std::uint64_t>& counts, ReduceOp op, DataType type) {
  Rank root = 0;
  for (const Collective collective : kServed) {
    if (op != ReduceOp::kSum && !Reduces(collective)) continue;
    for (const bool in_place : {true, false}) {
      if (in_place && !HasInPlace(collective)) continue;
      for (const std::uint64_t count : counts) {
        root = HasRoot(collective) ? (root + 1) % ranks : 0;
        world.Expect({.collective = collective,
                      .algorithm = Algorithm::kBoard,
                      .count = collective == Collective::kBarrier ? 0 : count,
                      .root = root,
                      .in_place = in_place,
                      .op = op,
                      .type = type});
      }
    }
  }
}

TEST_CASE("every collective gives every rank the result, from no element to many windows") {
  // Slots of 384 and 3968 bytes of payload.
  for (const Sizes& sizes :
       {Sizes{1024, {0, 1, 3, 8, 9, 95, 96, 97, 500, 3000}}, Sizes{8192, {992, 993, 5000, 13'000}}}) {
    for (const bool late : {false, true}) {
      for (const int ranks : {2, 3, 4, 5, 6}) {
        CAPTURE(sizes.part_bytes);
        CAPTURE(late);
        EngineWorld world({.ranks = ranks,
                           .late_mover = late,
                           .board_part_bytes = sizes.part_bytes,
                           .seed = 11 + static_cast<std::uint64_t>(ranks)});
        RunAll(world, ranks, sizes.counts, ReduceOp::kSum, DataType::kInt32);
      }
    }
  }
}

TEST_CASE("an average divides once and a pre-multiplied sum scales once") {
  for (const bool late : {false, true}) {
    for (const int ranks : {2, 3, 5}) {
      EngineWorld world({.ranks = ranks, .late_mover = late, .board_part_bytes = 1024});
      RunAll(world, ranks, {1, 64, 133, 1000, 2000}, ReduceOp::kAvg, DataType::kInt32);
      RunAll(world, ranks, {1, 64, 133, 1000, 2000}, ReduceOp::kPremulSum, DataType::kFloat32);
    }
  }
}

// 128 KiB is where looking for shared memory begins; 64 KiB is a window of a share.
const std::vector<std::uint64_t> kAroundWindows{32'767, 32'768, 32'769, 65'536, 100'003};

void RunAllReduce(EngineWorld& world, ReduceOp op, DataType type) {
  for (const bool in_place : {true, false})
    for (const std::uint64_t count : kAroundWindows)
      world.Expect({.algorithm = Algorithm::kBoard, .count = count, .in_place = in_place, .op = op, .type = type});
}

TEST_CASE("memory that all ranks can read is read where it lies") {
  for (const bool late : {false, true}) {
    for (const int ranks : {2, 3, 5}) {
      EngineWorld world({.ranks = ranks, .late_mover = late, .board_part_bytes = 8192});
      world.plain_board().AnswerRegions([&](PlainBoard::Question) { return true; });
      RunAllReduce(world, ReduceOp::kSum, DataType::kInt32);
      RunAllReduce(world, ReduceOp::kAvg, DataType::kInt32);
      const std::uint64_t pulls = world.board(0).pulls();
      CHECK(pulls == 2 * 2 * (kAroundWindows.size() - 1));  // all but those that are too short
      RunAllReduce(world, ReduceOp::kPremulSum, DataType::kFloat32);
      CHECK(world.board(0).pulls() == pulls);  // what is summed there lies nowhere
    }
  }
}

TEST_CASE("one rank whose memory cannot be shown or read sends all of them through slots") {
  using Question = PlainBoard::Question;
  for (const Question bad : {Question::kLocate, Question::kShow, Question::kFind}) {
    for (const int every : {1, 2, 3, 5}) {
      CAPTURE(every);
      EngineWorld world({.ranks = 3, .board_part_bytes = 8192});
      int asked = 0;
      world.plain_board().AnswerRegions([&](Question question) { return question != bad || ++asked % every != 0; });
      RunAllReduce(world, ReduceOp::kSum, DataType::kInt32);
      CHECK(asked > 0);
      if (every == 1) CHECK(world.board(0).pulls() == 0);
      for (const Rank r : {1, 2}) CHECK(world.board(r).pulls() == world.board(0).pulls());
    }
  }
}

TEST_CASE("slots as large as they really are") {
  EngineWorld world({.ranks = 3, .board_part_bytes = 256 * 1024});
  RunAll(world, 3, {4000, 32'736, 32'737, 196'416, 196'417, 300'000}, ReduceOp::kSum, DataType::kInt32);
}

TEST_CASE("operations on lanes go between, and the turns go on") {
  EngineWorld world({.ranks = 3, .board_part_bytes = 1024});
  for (int i = 0; i < 5; ++i) {
    world.Expect({.algorithm = Algorithm::kBoard, .count = 7});
    world.Expect({.algorithm = Algorithm::kRing, .count = 7});
  }
}

// In the thread of one rank, beside those of the others. False: it failed.
bool Finish(BoardPath& path) {
  while (true) {
    const auto progress = path.Poll();
    if (!progress) return false;
    if (*progress == Progress::kComplete) return true;
    if (*progress == Progress::kNothing) std::this_thread::yield();
  }
}

TEST_CASE("a sum is the left fold in rank order, bit by bit: by all, by shares and by relay") {
  constexpr int kRanks = 5;
  for (const std::size_t count : {7u, 2000u, 60'000u}) {
    PlainBoard memory(kRanks, 16 * 1024);
    Random random(3);
    std::vector<std::vector<float>> inputs(kRanks), outputs(kRanks);
    std::vector<float> expected(count);
    for (int r = 0; r < kRanks; ++r) {
      outputs[static_cast<std::size_t>(r)].resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(random.Below(1'000'000)) * 1.37e-3f;
        inputs[static_cast<std::size_t>(r)].push_back(value);
        expected[i] = r == 0 ? value : expected[i] + value;
      }
    }
    std::vector<std::thread> threads;
    for (Rank r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        HostMover mover;
        BoardPath path(r, kRanks, memory, mover);
        path.Start({.sequence = 1,
                    .count = count,
                    .collective = Collective::kAllReduce,
                    .type = DataType::kFloat32,
                    .algorithm = Algorithm::kBoard},
                   {.input = reinterpret_cast<const std::byte*>(inputs[static_cast<std::size_t>(r)].data()),
                    .output = reinterpret_cast<std::byte*>(outputs[static_cast<std::size_t>(r)].data())},
                   1.0, false);
        CHECK(Finish(path));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<float>& output : outputs)
      CHECK(std::memcmp(output.data(), expected.data(), count * sizeof(float)) == 0);
  }
}

// For the thread sanitizer above all: the ranks as threads, thousands of turns.
TEST_CASE("ranks that run at the same time") {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kOperations = 600;
  PlainBoard memory(kRanks, 1024);
  std::array<bool, kRanks> right{};
  std::vector<std::thread> threads;
  for (Rank r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      HostMover mover;
      BoardPath path(r, kRanks, memory, mover);
      Random random(9);  // the same on all ranks
      bool all_right = true;
      for (std::uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
        const std::uint64_t count = random.Below(random.Chance(0.1) ? 4000 : 400);
        const bool sum = random.Chance(0.6);
        const Rank root = sum ? 0 : static_cast<Rank>(random.Below(kRanks));
        std::vector<std::int32_t> input(count, r + static_cast<std::int32_t>(sequence)), output(count);
        path.Start({.sequence = sequence,
                    .count = count,
                    .collective = sum ? Collective::kAllReduce : Collective::kBroadcast,
                    .type = DataType::kInt32,
                    .algorithm = Algorithm::kBoard,
                    .root = root},
                   {.input = reinterpret_cast<const std::byte*>(input.data()),
                    .output = reinterpret_cast<std::byte*>(output.data())},
                   1.0, false);
        if (!Finish(path)) return;
        const auto s = static_cast<std::int32_t>(sequence);
        for (const std::int32_t value : output) all_right &= value == (sum ? 3 * s + 3 : root + s);
      }
      right[static_cast<std::size_t>(r)] = all_right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool one : right) CHECK(one);
}

TEST_CASE("ranks that run at the same time, in each other's memory") {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kOperations = 12;
  constexpr std::uint64_t kCount = 100'000;
  PlainBoard memory(kRanks, 8192);
  memory.AnswerRegions([](PlainBoard::Question) { return true; });
  std::array<bool, kRanks> right{};
  std::vector<std::thread> threads;
  for (Rank r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      HostMover mover;
      BoardPath path(r, kRanks, memory, mover);
      std::vector<std::int32_t> input(kCount), output(kCount);
      bool all_right = true;
      for (std::uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
        const auto s = static_cast<std::int32_t>(sequence);
        const bool in_place = sequence % 2 == 0;
        std::fill(input.begin(), input.end(), r + s);
        path.Start({.sequence = sequence,
                    .count = kCount,
                    .collective = Collective::kAllReduce,
                    .type = DataType::kInt32,
                    .algorithm = Algorithm::kBoard},
                   {.input = reinterpret_cast<const std::byte*>(input.data()),
                    .output = reinterpret_cast<std::byte*>((in_place ? input : output).data())},
                   1.0, in_place);
        if (!Finish(path)) return;
        for (const std::int32_t value : in_place ? input : output) all_right &= value == 3 * s + 3;
      }
      right[static_cast<std::size_t>(r)] = all_right && path.pulls() == kOperations;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool one : right) CHECK(one);
}

TEST_CASE("memory that its rank has given back to its user makes no result") {
  EngineWorld world({.ranks = 2, .board_part_bytes = 8192});
  world.plain_board().AnswerRegions([](PlainBoard::Question) { return true; });
  world.NextSequence();
  const Case sum{.algorithm = Algorithm::kBoard, .count = 50'000};
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(sum.count, 1));
  for (const Rank r : {0, 1}) {
    auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
    world.StartOne(r, sum, memory, memory);
  }
  // Rank 0 has folded its share before rank 1 begins, which then goes all the way to its closing turn and fails there.
  while (world.board(0).pulls() == 0) {
    REQUIRE(world.PollOne(0));
    if (world.board(0).pulls() == 0) REQUIRE(world.PollOne(1));
  }
  for (int i = 0; i < 20; ++i) REQUIRE(world.PollOne(0));
  for (int i = 0; i < 20; ++i) REQUIRE(world.PollOne(1));
  REQUIRE(world.board(1).pulls() == 1);
  REQUIRE(world.board(1).WaitsFor(0));
  world.board(1).Drain();
  for (int i = 0; i < 20; ++i) {
    const auto progress = world.PollOne(0);
    REQUIRE(progress);
    CHECK(*progress != Progress::kComplete);
  }
  CHECK(world.board(0).WaitsFor(1));
  CHECK(!world.board(0).HasNews());
}

TEST_CASE("who holds a relay up has a name") {
  constexpr int kRanks = 4;
  EngineWorld world({.ranks = kRanks, .board_part_bytes = 1024});
  world.NextSequence();
  const Case sum{.algorithm = Algorithm::kBoard, .count = 5000};
  std::vector<std::vector<std::int32_t>> data(kRanks, std::vector<std::int32_t>(5000, 1));
  for (Rank r = 0; r < kRanks; ++r) {
    auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
    world.StartOne(r, sum, memory, memory);
    REQUIRE(world.PollOne(r));
  }
  // All but rank 2 go as far as they can.
  for (int i = 0; i < 100; ++i)
    for (const Rank r : {0, 1, 3}) REQUIRE(world.PollOne(r));
  for (const Rank r : {0, 1, 3}) {
    CAPTURE(r);
    REQUIRE(world.board(r).Waiting().size() == 1);
    CHECK(world.board(r).Waiting().front().peer == 2);
    CHECK(!world.board(r).HasNews());
  }
  CHECK(world.board(2).HasNews());
  world.RunToEnd();
  for (const auto& vector : data) CHECK(vector == std::vector<std::int32_t>(5000, kRanks));
}

TEST_CASE("ranks in different operations are told, both by name") {
  EngineWorld world({.ranks = 2, .board_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> first{}, second{};
  world.StartOne(0, {.algorithm = Algorithm::kBoard, .count = 3}, nullptr, reinterpret_cast<std::byte*>(first.data()));
  world.StartOne(1, {.algorithm = Algorithm::kBoard, .count = 4}, nullptr, reinterpret_cast<std::byte*>(second.data()));
  CHECK(*world.PollOne(0) == Progress::kMoved);
  const auto told = world.PollOne(1);
  REQUIRE(!told);
  CHECK(told.error().code() == ErrorCode::kMismatch);
  CHECK(told.error().culprit() == 0);
  CHECK(told.error().message() ==
        "the ranks disagree: rank 1 is in operation #1 all_reduce int32 x 4 sum by board, rank 0 in operation #1 "
        "all_reduce int32 x 3 sum by board");
  const auto also = world.PollOne(0);
  REQUIRE(!also);
  CHECK(also.error().culprit() == 1);
}

TEST_CASE("a disagreement that nobody needed to see is found in the next turn") {
  EngineWorld world({.ranks = 2, .board_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> first{}, second{};
  // Each is its own root, so both have what they want.
  for (const Rank r : {0, 1}) {
    auto* const memory = reinterpret_cast<std::byte*>(r == 0 ? first.data() : second.data());
    world.StartOne(r, {.collective = Collective::kBroadcast, .algorithm = Algorithm::kBoard, .count = 3, .root = r},
                   memory, memory);
    CHECK(*world.PollOne(r) == Progress::kComplete);
  }
  world.NextSequence();
  for (const Rank r : {0, 1}) {
    world.StartOne(r, {.collective = Collective::kBarrier, .algorithm = Algorithm::kBoard}, nullptr, nullptr);
    const auto told = world.PollOne(r);
    REQUIRE(!told);
    CHECK(told.error().code() == ErrorCode::kMismatch);
    CHECK(told.error().culprit() == 1 - r);
    CHECK(told.error().message().find("#1 broadcast int32 x 3 from rank") != std::string::npos);
  }
}

TEST_CASE("who is waited for has a name, and who has come is not waited for") {
  EngineWorld world({.ranks = 3, .board_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> memory{};
  const Case sum{.algorithm = Algorithm::kBoard, .count = 4};
  world.StartOne(0, sum, nullptr, reinterpret_cast<std::byte*>(memory.data()));
  CHECK(*world.PollOne(0) == Progress::kMoved);
  CHECK(world.board(0).Waiting().size() == 2);
  CHECK(!world.board(0).HasNews());
  std::array<std::int32_t, 4> others{};
  world.StartOne(2, sum, nullptr, reinterpret_cast<std::byte*>(others.data()));
  CHECK(*world.PollOne(2) == Progress::kMoved);
  CHECK(*world.PollOne(0) == Progress::kNothing);
  REQUIRE(world.board(0).Waiting().size() == 1);
  CHECK(world.board(0).Waiting().front().peer == 1);
  CHECK(!world.board(0).WaitsFor(2));
  CHECK(!world.board(0).HasNews());
  world.StartOne(1, sum, nullptr, reinterpret_cast<std::byte*>(others.data()));
  CHECK(*world.PollOne(1) == Progress::kComplete);
  CHECK(world.board(0).HasNews());
  CHECK(*world.PollOne(0) == Progress::kComplete);
}

}  // namespace
}  // namespace rondo
