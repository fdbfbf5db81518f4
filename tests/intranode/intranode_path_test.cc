// Collectives on the intranode path: every result is correct for every order in which the ranks arrive, however late
// copies are done. All ranks are in one thread; intranode_path_threads_test.cc runs them at the same time.
#include "collectives/intranode/intranode_path.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "tests/engine/world.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace intranode_path_test {

constexpr std::array kServed{Collective::kBarrier,   Collective::kAllReduce,     Collective::kReduce,
                             Collective::kBroadcast, Collective::kAllGather,     Collective::kGather,
                             Collective::kScatter,   Collective::kReduceScatter, Collective::kAllToAll};

struct Sizes {
  std::size_t part_bytes;
  std::vector<std::uint64_t> counts;
};

// Runs every collective on the intranode path of a world, in and out of place, with each rank as the root in turn.
void RunAll(EngineWorld& world, int ranks, const std::vector<std::uint64_t>& counts, ReduceOp op, DataType type) {
  Rank root = 0;
  for (const Collective collective : kServed) {
    if (op != ReduceOp::kSum && !Reduces(collective)) continue;
    for (const bool in_place : {true, false}) {
      if (in_place && !HasInPlace(collective)) continue;
      for (const std::uint64_t count : counts) {
        root = HasRoot(collective) ? (root + 1) % ranks : 0;
        world.Expect({.collective = collective,
                      .algorithm = Algorithm::kIntranode,
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
  // Slots with 384 and 3968 bytes of payload.
  Sample sample(3);
  for (const Sizes& sizes :
       {Sizes{1024, {0, 1, 3, 8, 9, 95, 96, 97, 500, 3000}}, Sizes{8192, {992, 993, 5000, 13'000}}}) {
    for (const bool late : {false, true}) {
      for (const int ranks : {2, 3, 4, 5, 6}) {
        if (!sample.Takes()) continue;
        CAPTURE(sizes.part_bytes);
        CAPTURE(late);
        EngineWorld world({.ranks = ranks,
                           .late_mover = late,
                           .segment_part_bytes = sizes.part_bytes,
                           .seed = 11 + static_cast<std::uint64_t>(ranks)});
        RunAll(world, ranks, sizes.counts, ReduceOp::kSum, DataType::kInt32);
      }
    }
  }
}

TEST_CASE("an average divides once and a pre-multiplied sum scales once") {
  for (const bool late : {false, true}) {
    for (const int ranks : {2, 3, 5}) {
      EngineWorld world({.ranks = ranks, .late_mover = late, .segment_part_bytes = 1024});
      RunAll(world, ranks, {1, 64, 133, 1000, 2000}, ReduceOp::kAvg, DataType::kInt32);
      RunAll(world, ranks, {1, 64, 133, 1000, 2000}, ReduceOp::kPremulSum, DataType::kFloat32);
    }
  }
}

using Question = PlainSharedSegment::Question;

// Memory of at least 128 KiB is mapped. Mapped memory is copied in windows of 64 KiB, memory that is read (CMA) in
// windows of 128 KiB.
const std::vector<std::uint64_t> kAroundWindows{32'767, 32'768, 32'769, 65'536, 100'003};

void RunAllReduce(EngineWorld& world, ReduceOp op, DataType type) {
  for (const bool in_place : {true, false})
    for (const std::uint64_t count : kAroundWindows)
      world.Expect({.algorithm = Algorithm::kIntranode, .count = count, .in_place = in_place, .op = op, .type = type});
}

TEST_CASE("memory that all ranks can map or read is used without a copy through slots") {
  for (const bool reads : {false, true}) {
    for (const bool late : {false, true}) {
      for (const int ranks : {2, 3, 5}) {
        if (late && ranks == 5) continue;  // this would take minutes under a sanitizer
        CAPTURE(reads);
        EngineWorld world({.ranks = ranks, .late_mover = late, .segment_part_bytes = 8192});
        world.segment().AnswerQuestions(
            [&](Question question) { return PlainSharedSegment::IsAboutReading(question) == reads; });
        RunAllReduce(world, ReduceOp::kSum, DataType::kInt32);
        const std::uint64_t pulls = world.intranode(0).single_copies();
        // Memory is read only with two ranks, because with more ranks other strategies are faster. The first count's
        // vector is too short to be mapped. It is read only if the operation is out of place.
        const std::size_t counts = kAroundWindows.size() - 1;
        CHECK(pulls == (!reads ? 2 * counts : ranks == 2 ? 2 * counts + 1 : 0));
        const Case large{.algorithm = Algorithm::kIntranode,
                         .count = 32'770,
                         .op = ReduceOp::kPremulSum,
                         .type = DataType::kFloat32};
        world.Expect(large);
        // no rank's memory contains the scaled operands, so they cannot be mapped or read
        CHECK(world.intranode(0).single_copies() == pulls);
        Case average = large;
        average.op = ReduceOp::kAvg;
        average.type = DataType::kInt32;
        world.Expect(average);
        CHECK((world.intranode(0).single_copies() > pulls) == (pulls > 0));
      }
    }
  }
}

// With two ranks, vectors of 64 KiB or more are read. Up to 128 KiB each rank reads the whole vector.
TEST_CASE("short vectors are read and folded whole, but not where that overwrites what others still read") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    EngineWorld world({.ranks = 2, .late_mover = late, .segment_part_bytes = 8192});
    world.segment().AnswerQuestions(PlainSharedSegment::IsAboutReading);
    std::uint64_t pulls = 0;
    for (const bool in_place : {true, false}) {
      for (const std::uint64_t count : {16'383u, 16'384u, 20'000u, 32'767u, 32'768u, 32'769u}) {
        world.Expect({.algorithm = Algorithm::kIntranode, .count = count, .in_place = in_place});
        pulls += count >= (in_place ? 32'768 : 16'384) ? 1 : 0;
      }
    }
    for (const Rank r : {0, 1}) CHECK(world.intranode(r).single_copies() == pulls);
  }
}

TEST_CASE("every collective is done by single copy from some length of its blocks on; a reduce only among two") {
  for (const bool reads : {false, true}) {
    for (const bool late : {false, true}) {
      for (const int ranks : {2, 3, 4}) {
        CAPTURE(reads);
        CAPTURE(late);
        EngineWorld world({.ranks = ranks, .late_mover = late, .segment_part_bytes = 8192});
        world.segment().AnswerQuestions(
            [&](Question question) { return PlainSharedSegment::IsAboutReading(question) == reads; });
        RunAll(world, ranks, {33'333}, ReduceOp::kSum, DataType::kInt32);
        std::uint64_t pulls = 0;
        for (const Collective collective : kServed)
          if (collective != Collective::kBarrier && (collective != Collective::kReduce || ranks == 2))
            pulls += HasInPlace(collective) ? 2 : 1;
        if (reads && ranks > 2) pulls -= 2;  // all_reduce uses the faster relay strategy instead of single copies
        for (Rank r = 0; r < ranks; ++r) CHECK(world.intranode(r).single_copies() == pulls);
      }
    }
  }
}

TEST_CASE("a reduce among two is folded by its root from 16 KiB to 1 MiB, else by shares") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    EngineWorld world({.ranks = 2, .late_mover = late, .segment_part_bytes = 8192});
    world.segment().AnswerQuestions(PlainSharedSegment::IsAboutReading);
    std::uint64_t pulls = 0;
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum}) {
      for (const bool in_place : {true, false}) {
        for (const Rank root : {0, 1}) {
          for (const std::uint64_t count : {4095u, 4096u, 100'003u, 262'144u, 262'145u}) {
            if (kSanitized && in_place != late && count > 4096) continue;
            world.Expect({.collective = Collective::kReduce,
                          .algorithm = Algorithm::kIntranode,
                          .count = count,
                          .root = root,
                          .in_place = in_place,
                          .op = op,
                          .type = op == ReduceOp::kPremulSum ? DataType::kFloat32 : DataType::kInt32});
            pulls += op != ReduceOp::kPremulSum && count >= 4096 && count <= 262'144 ? 1 : 0;
          }
        }
      }
    }
    for (const Rank r : {0, 1}) CHECK(world.intranode(r).single_copies() == pulls);
  }
}

TEST_CASE("one rank whose memory cannot be shown or mapped sends all of them through slots") {
  for (const Question bad : {Question::kLocate, Question::kShow, Question::kFind}) {
    for (const int every : {1, 2, 3, 5}) {
      CAPTURE(every);
      EngineWorld world({.ranks = 3, .segment_part_bytes = 8192});
      int asked = 0;
      world.segment().AnswerQuestions([&](Question question) {
        return question != bad ? !PlainSharedSegment::IsAboutReading(question) : ++asked % every != 0;
      });
      RunAllReduce(world, ReduceOp::kSum, DataType::kInt32);
      CHECK(asked > 0);
      if (every == 1) CHECK(world.intranode(0).single_copies() == 0);
      for (const Rank r : {1, 2}) CHECK(world.intranode(r).single_copies() == world.intranode(0).single_copies());
    }
  }
}

TEST_CASE("what cannot be mapped is read, unless one rank cannot") {
  for (const Question bad : {Question::kLocate, Question::kShow, Question::kFind}) {
    for (const int readers : {1, 2}) {
      EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
      int asked = 0;
      world.segment().AnswerQuestions([&](Question question) {
        if (question == Question::kCanRead) return asked++ % 2 < readers;
        return question != bad;
      });
      RunAllReduce(world, ReduceOp::kSum, DataType::kInt32);
      CHECK((world.intranode(0).single_copies() > 0) == (readers == 2));
      CHECK(world.intranode(1).single_copies() == world.intranode(0).single_copies());
    }
  }
}

TEST_CASE("memory that others could not read goes through slots, that of other operations does not") {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
  int asked = 0;
  world.segment().AnswerQuestions([&](Question question) {
    return question == Question::kCanBeRead ? ++asked > 2 : PlainSharedSegment::IsAboutReading(question);
  });
  const Case sum{.algorithm = Algorithm::kIntranode, .count = 20'000, .in_place = false};
  world.Expect(sum);
  for (Rank r = 0; r < 2; ++r) CHECK(world.intranode(r).single_copies() == 0);
  world.Expect(sum);
  for (Rank r = 0; r < 2; ++r) CHECK(world.intranode(r).single_copies() == 1);
}

TEST_CASE("ranks that may not read ask once, as long as what moves is short") {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
  int asked = 0;
  world.segment().AnswerQuestions([&](Question question) {
    asked += question == Question::kCanRead ? 1 : 0;
    return false;
  });
  for (int i = 0; i < 4; ++i) world.Expect({.algorithm = Algorithm::kIntranode, .count = 20'000});
  CHECK(asked == 2);
}

TEST_CASE("shares, relays, what is folded whole and what fits a line follow each other") {
  for (const int ranks : {2, 3, 6}) {
    CAPTURE(ranks);
    EngineWorld world({.ranks = ranks, .late_mover = true, .segment_part_bytes = 8192});
    bool reads = false, maps = false;
    world.segment().AnswerQuestions(
        [&](Question question) { return PlainSharedSegment::IsAboutReading(question) ? reads : maps; });
    const auto sum = [&](std::uint64_t count, bool in_place, Collective collective = Collective::kAllReduce) {
      world.Expect(
          {.collective = collective, .algorithm = Algorithm::kIntranode, .count = count, .in_place = in_place});
    };
    for (const int round : {0, 1, 2, 3}) {
      maps = round % 2 == 0;
      reads = round != 3;
      sum(15'000, true, Collective::kReduce);  // uses the relay strategy if there are more than two ranks
      sum(32'775, true);
      sum(20'000, true);
      sum(20'000, false);
      sum(1, false);
    }
    CHECK(world.intranode(0).single_copies() > 0);
  }
}

TEST_CASE("memory that cannot be read after all is an error that names its rank, or a rank that has gone") {
  for (const ErrorCode code : {ErrorCode::kResource, ErrorCode::kPeerLost}) {
    EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
    world.segment().AnswerQuestions(
        [](Question question) { return question != Question::kRead && PlainSharedSegment::IsAboutReading(question); });
    world.segment().FailReadsWith(code);
    world.NextSequence();
    const Case sum{.algorithm = Algorithm::kIntranode, .count = 50'000};
    std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(sum.count, 1));
    for (const Rank r : {0, 1}) {
      auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
      world.StartOne(r, sum, memory, memory);
    }
    REQUIRE(*world.PollOne(0) == Progress::kMoved);
    const auto read = world.PollOne(1);
    if (code == ErrorCode::kResource) {
      REQUIRE(!read);
      CHECK(read.error().code() == ErrorCode::kResource);
      CHECK(read.error().culprit() == 0);
    } else {  // rank 1 waits for the lost rank without advancing: another component reports the loss
      for (int i = 0; i < 20; ++i) REQUIRE(*world.PollOne(1) != Progress::kComplete);
      CHECK(world.intranode(1).WaitsFor(0));
      CHECK(!world.intranode(1).HasNews());
    }
  }
}

TEST_CASE("slots as large as they really are") {
  EngineWorld world({.ranks = 3, .segment_part_bytes = 256 * 1024});
  std::vector<std::uint64_t> counts{4000, 32'736, 32'737, 196'417};
  if (!kSanitized) counts.insert(counts.end(), {196'416, 300'000});
  RunAll(world, 3, counts, ReduceOp::kSum, DataType::kInt32);
}

TEST_CASE("operations on lanes in between do not disturb the rounds") {
  EngineWorld world({.ranks = 3, .segment_part_bytes = 1024});
  for (int i = 0; i < 5; ++i) {
    world.Expect({.algorithm = Algorithm::kIntranode, .count = 7});
    world.Expect({.algorithm = Algorithm::kRing, .count = 7});
  }
}

void GiveBackBeforeTheEnd(bool by_draining) {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
  world.segment().AnswerQuestions([](Question) { return true; });
  world.NextSequence();
  const Case sum{.algorithm = Algorithm::kIntranode, .count = 50'000};
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(sum.count, 1));
  for (const Rank r : {0, 1}) {
    auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
    world.StartOne(r, sum, memory, memory);
  }
  // Rank 0 has folded its share before rank 1 begins. Rank 1 then advances to its closing round and fails there.
  while (world.intranode(0).single_copies() == 0) {
    REQUIRE(world.PollOne(0));
    if (world.intranode(0).single_copies() == 0) REQUIRE(world.PollOne(1));
  }
  for (int i = 0; i < 20; ++i) REQUIRE(world.PollOne(0));
  for (int i = 0; i < 20; ++i) REQUIRE(world.PollOne(1));
  REQUIRE(world.intranode(1).single_copies() == 1);
  REQUIRE(world.intranode(1).WaitsFor(0));
  by_draining ? world.intranode(1).Drain() : world.intranode(1).Withdraw();
  for (int i = 0; i < 20; ++i) {
    const auto progress = world.PollOne(0);
    REQUIRE(progress);
    CHECK(*progress != Progress::kComplete);
  }
  CHECK(world.intranode(0).WaitsFor(1));
  CHECK(!world.intranode(0).HasNews());
}

TEST_CASE("memory that a rank has given back to its user makes no result, whether by Drain or by Withdraw") {
  GiveBackBeforeTheEnd(true);
  GiveBackBeforeTheEnd(false);
}

TEST_CASE("memory that a rank has given back before any read makes no error that names another rank") {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 8192});
  bool is_mapped = true;
  world.segment().AnswerQuestions([&](Question question) {
    return PlainSharedSegment::IsAboutReading(question) && (is_mapped || question != Question::kRead);
  });
  world.NextSequence();
  const Case sum{.algorithm = Algorithm::kIntranode, .count = 50'000};
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(sum.count, 1));
  for (const Rank r : {0, 1}) {
    auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
    world.StartOne(r, sum, memory, memory);
  }
  // Rank 0 fails after it has published the address of its memory; rank 1 has not yet been notified.
  REQUIRE(*world.PollOne(0) == Progress::kMoved);
  REQUIRE(world.intranode(0).single_copies() == 0);
  world.intranode(0).Drain();
  is_mapped = false;
  for (int i = 0; i < 20; ++i) {
    const auto progress = world.PollOne(1);
    REQUIRE(progress);
    CHECK(*progress != Progress::kComplete);
  }
  CHECK(world.intranode(1).single_copies() == 1);
  CHECK(world.intranode(1).WaitsFor(0));
}

TEST_CASE("a rank that holds up a relay is named by all others") {
  constexpr int kRanks = 4;
  EngineWorld world({.ranks = kRanks, .segment_part_bytes = 1024});
  world.NextSequence();
  const Case sum{.algorithm = Algorithm::kIntranode, .count = 5000};
  std::vector<std::vector<std::int32_t>> data(kRanks, std::vector<std::int32_t>(5000, 1));
  for (Rank r = 0; r < kRanks; ++r) {
    auto* const memory = reinterpret_cast<std::byte*>(data[static_cast<std::size_t>(r)].data());
    world.StartOne(r, sum, memory, memory);
    REQUIRE(world.PollOne(r));
  }
  // All ranks except rank 2 advance as far as they can.
  for (int i = 0; i < 100; ++i)
    for (const Rank r : {0, 1, 3}) REQUIRE(world.PollOne(r));
  for (const Rank r : {0, 1, 3}) {
    CAPTURE(r);
    REQUIRE(world.intranode(r).Blocked().size() == 1);
    CHECK(world.intranode(r).Blocked().front().peer == 2);
    CHECK(!world.intranode(r).HasNews());
  }
  CHECK(world.intranode(2).HasNews());
  world.RunToEnd();
  for (const auto& vector : data) CHECK(vector == std::vector<std::int32_t>(5000, kRanks));
}

TEST_CASE("ranks in different operations get an error, each with the name of the other") {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> first{}, second{};
  world.StartOne(0, {.algorithm = Algorithm::kIntranode, .count = 3}, nullptr,
                 reinterpret_cast<std::byte*>(first.data()));
  world.StartOne(1, {.algorithm = Algorithm::kIntranode, .count = 4}, nullptr,
                 reinterpret_cast<std::byte*>(second.data()));
  CHECK(*world.PollOne(0) == Progress::kMoved);
  const auto polled = world.PollOne(1);
  REQUIRE(!polled);
  CHECK(polled.error().code() == ErrorCode::kMismatch);
  CHECK(polled.error().culprit() == 0);
  CHECK(polled.error().message() ==
        "the ranks disagree: rank 1 is in operation #1 all_reduce int32 x 4 sum by intranode, rank 0 in operation #1 "
        "all_reduce int32 x 3 sum by intranode");
  const auto also = world.PollOne(0);
  REQUIRE(!also);
  CHECK(also.error().culprit() == 1);
}

TEST_CASE("a disagreement that no rank needed to see is found in the next round") {
  EngineWorld world({.ranks = 2, .segment_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> first{}, second{};
  // Each rank is its own root, so both have complete results.
  for (const Rank r : {0, 1}) {
    auto* const memory = reinterpret_cast<std::byte*>(r == 0 ? first.data() : second.data());
    world.StartOne(r, {.collective = Collective::kBroadcast, .algorithm = Algorithm::kIntranode, .count = 3, .root = r},
                   memory, memory);
    CHECK(*world.PollOne(r) == Progress::kComplete);
  }
  world.NextSequence();
  for (const Rank r : {0, 1}) {
    world.StartOne(r, {.collective = Collective::kBarrier, .algorithm = Algorithm::kIntranode}, nullptr, nullptr);
    const auto polled = world.PollOne(r);
    REQUIRE(!polled);
    CHECK(polled.error().code() == ErrorCode::kMismatch);
    CHECK(polled.error().culprit() == 1 - r);
    CHECK(polled.error().message().find("#1 broadcast int32 x 3 from rank") != std::string::npos);
  }
}

TEST_CASE("a rank that is waited for is named, and a rank that has published is not waited for") {
  EngineWorld world({.ranks = 3, .segment_part_bytes = 1024});
  world.NextSequence();
  std::array<std::int32_t, 4> memory{};
  const Case sum{.algorithm = Algorithm::kIntranode, .count = 4};
  world.StartOne(0, sum, nullptr, reinterpret_cast<std::byte*>(memory.data()));
  CHECK(*world.PollOne(0) == Progress::kMoved);
  CHECK(world.intranode(0).Blocked().size() == 2);
  CHECK(!world.intranode(0).HasNews());
  std::array<std::int32_t, 4> others{};
  world.StartOne(2, sum, nullptr, reinterpret_cast<std::byte*>(others.data()));
  CHECK(*world.PollOne(2) == Progress::kMoved);
  CHECK(*world.PollOne(0) == Progress::kNothing);
  REQUIRE(world.intranode(0).Blocked().size() == 1);
  CHECK(world.intranode(0).Blocked().front().peer == 1);
  CHECK(!world.intranode(0).WaitsFor(2));
  CHECK(!world.intranode(0).HasNews());
  world.StartOne(1, sum, nullptr, reinterpret_cast<std::byte*>(others.data()));
  CHECK(*world.PollOne(1) == Progress::kComplete);
  CHECK(world.intranode(0).HasNews());
  CHECK(*world.PollOne(0) == Progress::kComplete);
}

TEST_CASE("whether awaited ranks share this rank's core is known as soon as they have published where they run") {
  EngineWorld world({.ranks = 3, .segment_part_bytes = 1024});
  const auto runs_on = [&](int core0, int core1, int core2) {
    world.intranode(0).RunsOn(core0);
    world.intranode(1).RunsOn(core1);
    world.intranode(2).RunsOn(core2);
    return world.intranode(0).WhereAreAwaited();
  };
  CHECK(runs_on(0, 0, 0) == AwaitedRanks::kUnknown);  // the rank waits for no other rank
  world.NextSequence();
  std::array<std::int32_t, 3> memory{};
  const auto start = [&](Rank rank) {
    world.StartOne(rank, {.algorithm = Algorithm::kIntranode, .count = 1}, nullptr,
                   reinterpret_cast<std::byte*>(&memory[static_cast<std::size_t>(rank)]));
    return *world.PollOne(rank);
  };
  CHECK(start(0) == Progress::kMoved);
  CHECK(runs_on(0, 1, 2) == AwaitedRanks::kOnOtherCores);
  CHECK(runs_on(0, 1, 0) == AwaitedRanks::kOnThisCore);
  CHECK(runs_on(0, 0, -1) == AwaitedRanks::kOnThisCore);
  CHECK(runs_on(0, -1, 0) == AwaitedRanks::kOnThisCore);
  CHECK(runs_on(0, 1, -1) == AwaitedRanks::kUnknown);
  CHECK(runs_on(-1, -1, -1) == AwaitedRanks::kUnknown);
  CHECK(start(1) == Progress::kMoved);
  CHECK(runs_on(0, 0, 1) == AwaitedRanks::kOnOtherCores);  // rank 1 has arrived, so its core does not matter
  CHECK(runs_on(0, 1, 0) == AwaitedRanks::kOnThisCore);
}

}  // namespace intranode_path_test
}  // namespace rondo
