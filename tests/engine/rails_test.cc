// Operations that are split into one share for each rail. Results must be right on lanes that make use of every freedom
// in their contract.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collectives/algorithms/table.h"
#include "collectives/engine/plan.h"
#include "collectives/engine/railed_engine.h"
#include "collectives/engine/slices.h"
#include "collectives/schedule/project.h"
#include "tests/engine/modes.h"
#include "tests/engine/world.h"
#include "tests/support/sanitized.h"
#include "transport/lane_index.h"

namespace rondo {
namespace rails_test {

// A share may be as small as one int32.
RailOptions Rails(std::uint32_t rails) { return {.rails = rails, .least_bytes = 1}; }

const Plan& PlanOf(PlanCache& plans, const AlgorithmEntry& entry, int ranks, Rank root = 0, bool in_place = false) {
  const auto plan = plans.Get({.collective = entry.collective,
                               .algorithm = entry.algorithm,
                               .world_size = ranks,
                               .root = root,
                               .in_place = in_place});
  REQUIRE(plan);
  return **plan;
}

bool SpansBlocks(const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return step.chunks.count > 0 && step.block != (step.chunks.end() - 1) / plan.chunks_per_block;
  });
}

TEST_CASE("the table says of every algorithm whether a step of it may span blocks") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    CAPTURE(Name(entry.collective));
    CAPTURE(Name(entry.algorithm));
    bool spans = false;
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (Rank r = 0; r < ranks; ++r) {
        PlanCache plans(r, 2);
        for (const bool in_place : {true, false}) {
          if (in_place && !HasInPlace(entry.collective)) continue;
          for (Rank root = 0; root < (HasRoot(entry.collective) ? ranks : 1); ++root)
            spans = spans || SpansBlocks(PlanOf(plans, entry, ranks, root, in_place));
        }
      }
    }
    CHECK(entry.traits.spans_blocks == spans);
  }
}

TEST_CASE("every collective by every algorithm gives the same on two and on five rails, in every awkward mode") {
  Sample sample(7);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const std::uint32_t rails : {2u, 5u}) {
      CAPTURE(rails);
      for (const int ranks : {1, 2, 3, 4}) {
        if (!sample.Takes()) continue;
        EngineWorld world({.ranks = ranks,
                           .network = mode.network,
                           .late_mover = mode.late_mover,
                           .frame_bytes = 128,
                           .rails = Rails(rails),
                           .seed = rails});
        Rank root = 0;
        for (const AlgorithmEntry& entry : AllAlgorithms()) {
          for (const bool in_place : {true, false}) {
            if (in_place && !HasInPlace(entry.collective)) continue;
            // counts below, equal to and above the number of rails; some give shares of different lengths
            for (const std::uint64_t count : {0, 1, 5, 64, 257}) {
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
    }
  }
}

TEST_CASE("rails with checksums, averages, scales, slices and blocks of different lengths") {
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const bool checksums : {false, true}) {
      EngineWorld world({.ranks = 3,
                         .network = mode.network,
                         .late_mover = mode.late_mover,
                         .frame_bytes = kLineBytes,
                         .slices = true,
                         .checksums = checksums,
                         .rails = Rails(3)});
      for (const bool in_place : {true, false}) {
        world.Expect({.algorithm = Algorithm::kRing, .count = 999, .in_place = in_place, .op = ReduceOp::kAvg});
        world.Expect({.algorithm = Algorithm::kTwoShot,
                      .count = 1001,
                      .in_place = in_place,
                      .op = ReduceOp::kPremulSum,
                      .type = DataType::kFloat32});
        world.Expect({.collective = Collective::kAllGather,
                      .algorithm = Algorithm::kRing,
                      .in_place = in_place,
                      .block_counts = {100, 0, 57}});
      }
    }
  }
}

TEST_CASE("how many rails an operation takes depends on its bytes alone, and all take part where it is large") {
  PlanCache plans(0, 8);
  const AlgorithmEntry& ring = *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing);
  const AlgorithmEntry& gather = *FindAlgorithm(Collective::kAllGather, Algorithm::kRing);
  const AlgorithmEntry& bruck = *FindAlgorithm(Collective::kAllGather, Algorithm::kBruck);
  const RailOptions rails{.rails = 4, .least_bytes = 1024};
  const auto all_reduce = [&](std::uint64_t count) {
    return RailsOf(rails, PlanOf(plans, ring, 4), {.count = count, .type = DataType::kFloat32});
  };
  CHECK(all_reduce(0) == 1);
  CHECK(all_reduce(511) == 1);
  CHECK(all_reduce(512) == 2);
  CHECK(all_reduce(1023) == 3);
  CHECK(all_reduce(1'000'000) == 4);
  // For collectives with a block per rank, the total size of all blocks determines the number of rails.
  const OperationDescriptor blocks{.count = 128, .collective = Collective::kAllGather, .type = DataType::kFloat32};
  CHECK(RailsOf(rails, PlanOf(plans, gather, 4), blocks) == 2);
  OperationDescriptor large = blocks;
  large.count = 1'000'000;
  CHECK(RailsOf(rails, PlanOf(plans, gather, 4), large) == 4);
  CHECK(RailsOf(rails, PlanOf(plans, bruck, 4), large) == 1);  // transfers of Bruck's algorithm span several blocks
  large.varying = true;
  CHECK(RailsOf(rails, PlanOf(plans, gather, 4), large) == 1);
}

TEST_CASE("each rail has lanes of its own, which carry its share") {
  EngineWorld world({.ranks = 2, .frame_bytes = 4096, .rails = Rails(3)});
  world.Expect({.algorithm = Algorithm::kRing, .count = 30'000});
  for (std::uint32_t rail = 0; rail < 3; ++rail) {
    auto lane = world.endpoint(0).Open(1, LaneOfRail(rail));
    REQUIRE(lane);
    // A rail has 10,000 elements of 4 bytes. It sends half of them in the reduce-scatter, and half in the all-gather.
    // The headers come in addition.
    CHECK((*lane)->accepted() >= 40'000);
    CHECK((*lane)->accepted() < 42'000);
    CHECK((*lane)->consumed() == (*lane)->accepted());
  }
}

TEST_CASE("what a rank waits for is described for every rail by number") {
  EngineWorld world({.ranks = 2, .rails = Rails(2)});
  std::vector<std::byte> memory(4000);
  world.NextSequence();
  world.StartOne(0, {.algorithm = Algorithm::kRing, .count = 1000}, memory.data(), memory.data());
  while (*world.PollOne(0) != Progress::kNothing) {
  }
  std::map<std::uint32_t, std::uint64_t> due;  // by rail: the bytes of a chunk, which is half of the rail's share
  for (const BlockedStep& blocked : world.engine(0).Waiting()) {
    CHECK(blocked.peer == 1);
    due[blocked.rail] = blocked.bytes_due;
  }
  CHECK(due == std::map<std::uint32_t, std::uint64_t>{{0, 992}, {1, 1008}});
  CHECK(world.engine(0).WaitsFor(1));
}

TEST_CASE("ranks that disagree get that error on whichever rail it shows") {
  EngineWorld world({.ranks = 2, .rails = Rails(2)});
  std::vector<std::byte> memory(8000), other(8000);
  world.NextSequence();
  world.StartOne(0, {.algorithm = Algorithm::kRing, .count = 1000}, memory.data(), memory.data());
  world.StartOne(1, {.algorithm = Algorithm::kRing, .count = 1001}, other.data(), other.data());
  std::optional<Error> error;
  for (int i = 0; i < 100 && !error; ++i)
    for (Rank r : {0, 1})
      if (auto progress = world.PollOne(r); !progress) error = progress.error();
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
}

TEST_CASE("lane indices and rails go both ways, and messages and unknown lanes are on the first") {
  std::set<std::uint32_t> indices{kMessageLaneIndex};
  for (std::uint32_t rail = 0; rail < kMaxRails; ++rail) {
    CHECK(indices.insert(LaneOfRail(rail)).second);
    CHECK(RailOfLane(LaneOfRail(rail)) == rail);
  }
  CHECK(RailOfLane(kMessageLaneIndex) == 0);
  CHECK(RailOfLane(kSharedSegmentLaneIndex) == 0);
}

}  // namespace rails_test
}  // namespace rondo
