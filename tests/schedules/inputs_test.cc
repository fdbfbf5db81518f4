// Checks that FindInputs classifies the operands of every reduction of every algorithm.
// tests/communicator/average_test.cc checks by values that each input is scaled exactly once.
#include "collectives/schedule/inputs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/project.h"

namespace rondo {
namespace inputs_test {

std::size_t CountOf(const RankSchedule& schedule, StepKind kind) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(), [&](const Step& step) { return step.kind == kind; }));
}

TEST_CASE("every reduction of every algorithm combines chunks that are alike, and it is known what they are") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    if (!Reduces(entry.collective)) continue;
    for (int world = 1; world <= 20; ++world) {
      std::vector<int> hosts;
      for (Rank rank = 0; rank < world; ++rank) hosts.push_back(rank / 3);
      const ScheduleKey key{.collective = entry.collective,
                            .algorithm = entry.algorithm,
                            .world_size = world,
                            .root = HasRoot(entry.collective) ? world / 2 : 0,
                            .hosts = entry.algorithm == Algorithm::kHierarchical ? &hosts : nullptr};
      CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
      CAPTURE(world);
      for (Rank rank = 0; rank < world; ++rank) {
        const RankSchedule schedule = Project(entry, key, rank);
        const ReductionInputs inputs = FindInputs(entry, key, rank);
        CHECK(inputs.local.size() == CountOf(schedule, StepKind::kReduce));
        CHECK(inputs.arriving.size() == CountOf(schedule, StepKind::kRecvReduce));
        for (const Step& step : schedule.steps)
          if (step.kind == StepKind::kRecvReduce) CHECK(inputs.arriving.count(step.transfer) == 1);
      }
    }
  }
}

TEST_CASE("around a ring the first hop combines two inputs, and every later one what came with an input") {
  const AlgorithmEntry& ring = *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing);
  const ScheduleKey key{.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .world_size = 4};
  for (Rank rank = 0; rank < 4; ++rank) {
    const ReductionInputs inputs = FindInputs(ring, key, rank);
    CHECK(inputs.arriving.size() == 3);
    std::size_t both = 0;
    for (const auto& [transfer, found] : inputs.arriving) {
      CHECK(found.own);
      both += found.incoming;
    }
    CHECK(both == 1);
  }
}

}  // namespace inputs_test
}  // namespace rondo
