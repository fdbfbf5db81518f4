// Tests the engine over lanes and movers that make use of every freedom in their contracts. Every case checks every
// element and the guard bytes, and that inputs are unchanged. Frames are short, so that transfers need many of them.
#include "collectives/engine/engine.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "collectives/algorithms/table.h"
#include "collectives/engine/slices.h"
#include "tests/engine/modes.h"
#include "tests/engine/world.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace engine_test {

// Runs every algorithm in and out of place; each rank is root in turn.
void RunEveryAlgorithm(const Mode& mode, int ranks, const std::vector<std::uint64_t>& counts, std::uint64_t seed) {
  EngineWorld world(
      {.ranks = ranks, .network = mode.network, .late_mover = mode.late_mover, .frame_bytes = 256, .seed = seed});
  Rank root = 0;
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (const bool in_place : {true, false}) {
      if (in_place && !HasInPlace(entry.collective)) continue;
      for (const std::uint64_t count : counts) {
        root = HasRoot(entry.collective) ? (root + 1) % ranks : 0;
        world.Expect({.collective = entry.collective,
                      .algorithm = entry.algorithm,
                      .count = entry.collective == Collective::kBarrier ? 0 : count,
                      .root = root,
                      .in_place = in_place});
      }
    }
  }
}

TEST_CASE("every algorithm gives every rank the result in every awkward mode") {
  Sample sample(7);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const int ranks : {1, 2, 3, 4, 5})
      if (sample.Takes()) RunEveryAlgorithm(mode, ranks, {0, 1, 3, 64, 257}, 7 + ranks);
  }
}

TEST_CASE("more ranks, counts around the chunk boundaries") {
  for (const int ranks : {7, 8, 9, 13}) {
    if (kSanitized && ranks > 8) continue;
    RunEveryAlgorithm({"plain", {}}, ranks, {1, 12, 13, 14, 1000, kSanitized ? 1001u : 4099u}, 3);
  }
}

TEST_CASE("an average divides once and a pre-multiplied sum scales once, whatever the algorithm") {
  Sample sample(5);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const int ranks : {1, 2, 4, 5}) {
      if (!sample.Takes()) continue;
      EngineWorld world({.ranks = ranks, .network = mode.network, .late_mover = mode.late_mover, .frame_bytes = 128});
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        if (!Reduces(entry.collective)) continue;
        const Rank root = HasRoot(entry.collective) ? ranks / 2 : 0;
        for (const bool in_place : {true, false}) {
          world.Expect({.collective = entry.collective,
                        .algorithm = entry.algorithm,
                        .count = 133,
                        .root = root,
                        .in_place = in_place,
                        .op = ReduceOp::kAvg});
          world.Expect({.collective = entry.collective,
                        .algorithm = entry.algorithm,
                        .count = 133,
                        .root = root,
                        .in_place = in_place,
                        .op = ReduceOp::kPremulSum,
                        .type = DataType::kFloat32});
        }
      }
    }
  }
}

TEST_CASE("blocks of different lengths, some of them empty, find their places") {
  Random random(5);
  Sample sample(5);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const int ranks : {1, 2, 3, 5}) {
      if (!sample.Takes()) continue;
      EngineWorld world({.ranks = ranks, .network = mode.network, .late_mover = mode.late_mover, .frame_bytes = 128});
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        const std::uint32_t blocks = BlocksOf(entry.collective, ranks);
        if (entry.traits.needs_equal_counts || OutputBlocks({.collective = entry.collective}, 0).count == 0) continue;
        if (BlocksOf(entry.collective, 2) == 1) continue;  // a single block has only one length
        for (const bool in_place : {true, false}) {
          if (in_place && !HasInPlace(entry.collective)) continue;
          Case c{.collective = entry.collective,
                 .algorithm = entry.algorithm,
                 .root = HasRoot(entry.collective) ? static_cast<Rank>(random.Below(ranks)) : 0,
                 .in_place = in_place};
          for (std::uint32_t block = 0; block < blocks; ++block)
            c.block_counts.push_back(random.Chance(0.3) ? 0 : random.Below(150));
          world.Expect(c);
        }
      }
    }
  }
}

TEST_CASE("windows are really used where they are granted") {
  // Rings are much smaller than the vector, so the sender must continue after the window was granted.
  EngineWorld world({.ranks = 3, .network = {.ring_bytes = 4096, .push = true}, .frame_bytes = 4096});
  world.Expect({.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = 10'000});
  CHECK(world.network().counters().pushed_bytes >= 10'000 * 4);
  // Bytes that no window covers are sent without a copy: headers, and elements that are reduced on arrival.
  EngineWorld lending({.ranks = 3, .network = {.reluctant = true, .push = true}, .frame_bytes = 4096});
  lending.Expect({.algorithm = Algorithm::kRing, .count = 10'000});
  CHECK(lending.network().counters().zero_copy_bytes >= 10'000 * 4);
  CHECK(lending.network().counters().pushed_bytes > 0);
}

TEST_CASE("a large vector crosses many frames, turns and rings") {
  EngineWorld world({.ranks = 2, .frame_bytes = 64 * 1024});
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kRecursiveDoubling, Algorithm::kTree})
    for (const bool in_place : {true, false})
      world.Expect({.algorithm = algorithm, .count = 1'000'003, .in_place = in_place});
}

TEST_CASE("a small transfer waits until all of it may go; a large one streams as its bytes come") {
  // Rank 0 forwards the gathered vector. It has its own block from the start, gets rank 1's soon, but never rank 2's.
  for (const bool large : {false, true}) {
    CAPTURE(large);
    const std::uint64_t count = large ? 10'000 : 10;
    EngineWorld world({.ranks = 3});
    std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(3 * 4 * count));
    world.NextSequence();
    for (const Rank r : {0, 1}) {
      std::byte* const own = memory[static_cast<std::size_t>(r)].data();
      world.StartOne(r, {.collective = Collective::kAllGather, .algorithm = Algorithm::kKnomial4, .count = count}, own,
                     own);
    }
    for (int i = 0; i < 100; ++i)
      for (const Rank r : {0, 1}) REQUIRE(world.PollOne(r));
    const std::vector<BlockedStep> waiting = world.engine(1).Waiting();
    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().peer == 0);
    CHECK(waiting.front().bytes_done == (large ? 2 * 4 * count : 0));
    CHECK(waiting.front().bytes_due == 3 * 4 * count);
  }
}

TEST_CASE("small transfers to one peer go in one call: a signal with its block, blocks that are passed on") {
  struct Sending {
    Algorithm algorithm;
    int ranks;
    std::uint64_t calls_of_a_rank;
  };
  // Each round of pairwise sends a block and a signal; each round of Bruck sends half of the blocks.
  for (const Sending& sending : {Sending{Algorithm::kPairwise, 4, 3}, Sending{Algorithm::kBruck, 8, 3}}) {
    CAPTURE(Name(sending.algorithm));
    EngineWorld world({.ranks = sending.ranks});
    world.Expect({.collective = Collective::kAllToAll, .algorithm = sending.algorithm, .count = 5, .in_place = false});
    CHECK(world.network().counters().writes == static_cast<std::uint64_t>(sending.ranks) * sending.calls_of_a_rank);
  }
}

TEST_CASE(
    "transfers that go together arrive whole, however their frames are cut and however late their headers are free") {
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    // Each round sends up to eight blocks.
    EngineWorld world({.ranks = 16, .network = mode.network, .late_mover = mode.late_mover, .frame_bytes = 256});
    for (const Algorithm algorithm : {Algorithm::kBruck, Algorithm::kPairwise})
      for (const std::uint64_t count : {0, 1, 40})
        world.Expect({.collective = Collective::kAllToAll, .algorithm = algorithm, .count = count, .in_place = false});
  }
}

TEST_CASE("of transfers that go together one may hold back the others, and then their peer is not waited for") {
  // In its second round rank 0 sends two blocks to rank 2: its own, and one that has not yet arrived from rank 3.
  EngineWorld world({.ranks = 4});
  std::vector<std::byte> input(4 * 4 * 5), output(input.size());
  world.NextSequence();
  world.StartOne(0,
                 {.collective = Collective::kAllToAll, .algorithm = Algorithm::kBruck, .count = 5, .in_place = false},
                 input.data(), output.data());
  for (int i = 0; i < 10; ++i) REQUIRE(world.PollOne(0));
  CHECK(world.network().counters().writes == 1);
  const std::vector<BlockedStep> waiting = world.engine(0).Waiting();
  REQUIRE_FALSE(waiting.empty());
  CHECK(waiting.front().peer == 3);
  for (const BlockedStep& blocked : waiting) CHECK_FALSE(blocked.sending);
}

// The algorithms that run in slices, each with the smallest count of int32 that is sliced, with frames of 64 bytes.
std::vector<std::pair<Algorithm, std::uint64_t>> InSlices(int ranks) {
  std::vector<std::pair<Algorithm, std::uint64_t>> found;
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.traits.in_slices)
      found.emplace_back(entry.algorithm, kLeastSlices * ChunksOf(entry, {.size = ranks}) * kLineBytes / 4);
  return found;
}

TEST_CASE("a vector in slices is summed like any other, in every awkward mode") {
  Sample sample(7);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const int ranks : {1, 2, 3, 4, 5}) {
      if (!sample.Takes()) continue;
      EngineWorld world({.ranks = ranks,
                         .network = mode.network,
                         .late_mover = mode.late_mover,
                         .frame_bytes = kLineBytes,
                         .slices = true});
      for (const auto& [algorithm, least] : InSlices(ranks)) {
        for (const bool in_place : {true, false}) {
          // No slices; slices of equal length; a final slice of one element; a final slice that lacks one element.
          for (const std::uint64_t count : {least - 1, least, least + 1, 2 * least - 1})
            world.Expect({.algorithm = algorithm, .count = count, .in_place = in_place});
          world.Expect({.algorithm = algorithm, .count = least, .in_place = in_place, .op = ReduceOp::kAvg});
          world.Expect({.algorithm = algorithm,
                        .count = least + 3,
                        .in_place = in_place,
                        .op = ReduceOp::kPremulSum,
                        .type = DataType::kFloat32});
        }
      }
    }
  }
}

TEST_CASE(
    "in slices, what a rank waits for is described by the whole vector, and a peer in the next slice is no mismatch") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EngineWorld world(
        {.ranks = 3, .network = {.reluctant = true}, .frame_bytes = kLineBytes, .slices = true, .seed = seed});
    constexpr std::uint64_t kCount = 999;
    std::vector<std::vector<std::byte>> memory(3, std::vector<std::byte>(4 * kCount));
    world.NextSequence();
    for (Rank r = 0; r < 3; ++r) {
      std::byte* const own = memory[static_cast<std::size_t>(r)].data();
      world.StartOne(r, {.algorithm = Algorithm::kTwoShot, .count = kCount}, own, own);
    }
    std::map<std::pair<Rank, std::uint32_t>, std::uint64_t> before;  // for each rank and step: bytes done
    std::set<std::pair<Rank, Rank>> through;  // (rank, peer): the rank no longer waits for the peer
    world.RunToEnd([&](Rank r) {
      for (const BlockedStep& blocked : world.engine(r).Waiting()) {
        CHECK(blocked.bytes_due == 4 * kCount / 3);
        CHECK(blocked.bytes_done <= blocked.bytes_due);
        std::uint64_t& last = before[{r, blocked.step}];
        CHECK(blocked.bytes_done >= last);
        last = blocked.bytes_done;
      }
      CHECK(!world.engine(r).FindMismatchedPeer());
      for (Rank peer = 0; peer < 3; ++peer) {  // a rank that has stopped waiting for a peer never waits for it again
        const bool waits = peer != r && world.engine(r).WaitsFor(peer);
        CHECK(!(waits && through.contains({r, peer})));
        if (!waits) through.insert({r, peer});
      }
    });
  }
}

// The error of the first rank that detects a problem.
std::optional<Error> FirstError(EngineWorld& world, int ranks) {
  for (int i = 0; i < 100; ++i)
    for (Rank r = 0; r < ranks; ++r)
      if (auto progress = world.PollOne(r); !progress) return progress.error();
  return std::nullopt;
}

TEST_CASE("ranks in different operations get both in words") {
  EngineWorld world({.ranks = 2});
  std::vector<std::byte> memory(4096);
  world.NextSequence();
  world.StartOne(0, {.algorithm = Algorithm::kRecursiveDoubling, .count = 10}, memory.data(), memory.data());
  world.StartOne(1, {.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = 10, .root = 1},
                 memory.data() + 2048, memory.data() + 2048);
  const std::optional<Error> error = FirstError(world, 2);
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
  CHECK(error->message().find("all_reduce int32 x 10 sum by recursive_doubling") != std::string::npos);
  CHECK(error->message().find("broadcast int32 x 10 from rank 1 by tree") != std::string::npos);
}

TEST_CASE("unequal counts are a mismatch that names both") {
  EngineWorld world({.ranks = 2});
  std::vector<std::byte> memory(4096);
  world.NextSequence();
  world.StartOne(0, {.count = 10}, memory.data(), memory.data());
  world.StartOne(1, {.count = 11}, memory.data() + 2048, memory.data() + 2048);
  const std::optional<Error> error = FirstError(world, 2);
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
  CHECK(error->message().find("x 10 ") != std::string::npos);
  CHECK(error->message().find("x 11 ") != std::string::npos);
}

TEST_CASE("a transfer of another length than expected is a mismatch that names both lengths") {
  EngineWorld world({.ranks = 2, .frame_bytes = 128});
  std::vector<std::byte> memory(8192);
  world.NextSequence();
  // Rank 0's counts are 100 for its own block and 50 for rank 1's; rank 1's counts are the reverse.
  const std::vector<std::uint64_t> mine{0, 100, 150}, theirs{0, 50, 150};
  const Case c{.collective = Collective::kAllGather,
               .algorithm = Algorithm::kDirect,
               .in_place = false,
               .block_counts = {100, 50}};
  world.StartOne(0, c, memory.data(), memory.data() + 2048, {.begins = mine});
  world.StartOne(1, c, memory.data() + 4096, memory.data() + 6144, {.begins = theirs});
  const std::optional<Error> error = FirstError(world, 2);
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
  CHECK(error->message().find("all_gather_v int32 x 150 by direct") != std::string::npos);
  CHECK(error->message().find("sends 400 bytes") != std::string::npos);
  CHECK(error->message().find("expects 200 bytes") != std::string::npos);
}

TEST_CASE("a peer that sends where nothing is expected is found by the slow path") {
  // Rank 1 broadcasts from itself in a tree of 4: it sends to ranks 2 and 3. Rank 3 is in an all-reduce whose first
  // partner is rank 2, so at first rank 3 reads nothing from rank 1.
  EngineWorld world({.ranks = 4});
  std::vector<std::byte> memory(4096);
  world.NextSequence();
  for (const Rank r : {0, 2, 3})
    world.StartOne(r, {.algorithm = Algorithm::kTree, .count = 4}, memory.data() + 1024 * r, memory.data() + 1024 * r);
  world.StartOne(1, {.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = 4, .root = 1},
                 memory.data() + 1024, memory.data() + 1024);
  std::optional<Error> error;
  for (int i = 0; i < 100 && !error; ++i)
    for (Rank r = 0; r < 4 && !error; ++r) {
      auto progress = world.PollOne(r);
      if (!progress) error = progress.error();
      if (!error) error = world.engine(r).FindMismatchedPeer();
    }
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
  CHECK(error->message().find("broadcast int32 x 4 from rank 1") != std::string::npos);
}

// One rank's engine in a network without other ranks.
struct LoneEngine : private PeerObserver {
  LoneEngine(Rank rank, int ranks, std::uint64_t max_scratch_bytes, bool slices = false) : network(ranks) {
    EndpointConfig config;
    config.rank = rank;
    for (Rank r = 0; r < ranks; ++r) config.addresses.push_back(network.transport(r)->Address());
    config.observer = this;
    auto opened = network.transport(rank)->OpenEndpoint(config);
    REQUIRE(opened);
    endpoint = std::move(*opened);
    engine = std::make_unique<Engine>(EngineOptions{.rank = rank,
                                                    .world_size = ranks,
                                                    .frame_bytes = kLineBytes,
                                                    .max_scratch_bytes = max_scratch_bytes,
                                                    .slices = slices},
                                      *endpoint, mover);
  }
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}

  InprocNetwork network;
  std::unique_ptr<Endpoint> endpoint;
  HostMover mover;
  std::unique_ptr<Engine> engine;
};

TEST_CASE("an algorithm that needs more scratch than allowed is refused with both numbers") {
  LoneEngine lone(0, 1, 100);
  const RankSchedule schedule{
      .scratch = {{0, 1}},
      .steps = {
          {.kind = StepKind::kCopy, .chunks = {0, 1}, .source = BufferId::kOutput, .destination = BufferId::kScratch}}};
  const Plan plan = MakePlan({}, 1, schedule);
  const auto started = lone.engine->Start(plan, {.count = 101, .type = DataType::kUint8}, {}, 1);
  REQUIRE(!started);
  CHECK(started.error().code() == ErrorCode::kResource);
  CHECK(started.error().message().find("101 bytes") != std::string::npos);
  CHECK(started.error().message().find("100") != std::string::npos);
}

TEST_CASE("scratch is only as large as what a rank keeps there") {
  // In a tree of four, rank 2 gathers its own block and rank 3's before it sends them to the root. So its scratch
  // holds two of the four blocks.
  const ScheduleKey key{.collective = Collective::kGather, .algorithm = Algorithm::kTree, .world_size = 4};
  const OperationDescriptor operation{
      .count = 50, .collective = key.collective, .type = DataType::kUint8, .algorithm = key.algorithm};
  std::vector<std::byte> memory(50);
  PlanCache plans(2, 1);
  const auto plan = plans.Get(key);
  REQUIRE(plan);
  CHECK(LoneEngine(2, 4, 100).engine->Start(**plan, operation, {memory.data()}, 1));
  CHECK(!LoneEngine(2, 4, 99).engine->Start(**plan, operation, {memory.data()}, 1));
}

TEST_CASE("in slices, scratch is that of one slice") {
  // Two-shot with four ranks: the owner of a chunk keeps its partial result while the next contribution arrives.
  const ScheduleKey key{.algorithm = Algorithm::kTwoShot, .world_size = 4, .in_place = true};
  const OperationDescriptor operation{
      .count = kLeastSlices * 4 * kLineBytes, .type = DataType::kUint8, .algorithm = key.algorithm};
  std::vector<std::byte> memory(operation.count);
  PlanCache plans(2, 1);
  const auto plan = plans.Get(key);
  REQUIRE(plan);
  REQUIRE(!(*plan)->scratch.empty());
  CHECK(LoneEngine(2, 4, kLineBytes, true).engine->Start(**plan, operation, {nullptr, memory.data()}, 1));
  CHECK(!LoneEngine(2, 4, kLineBytes, false).engine->Start(**plan, operation, {nullptr, memory.data()}, 1));
}

}  // namespace engine_test
}  // namespace rondo
