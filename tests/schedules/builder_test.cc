// Guarantees of the builder that the verifier does not prove. No dependency is superfluous. A schedule that is built
// for one rank alone is equal to this rank's part of the whole schedule. In exchanges, no reduction waits for the
// release of sent memory. Memory does not grow with the square of the world size.
#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <vector>

#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/text.h"
#include "collectives/schedule/verify.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace builder_test {

ScheduleKey Key(Collective collective, Algorithm algorithm, int world) {
  return {.collective = collective, .algorithm = algorithm, .world_size = world};
}

TEST_CASE("one rank's projection is that rank's part of the whole") {
  Sample sample(5);
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (const int world : {1, 2, 3, 7, 8, 12}) {
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        if (!sample.Takes()) continue;
        const Schedule whole = Build(entry, key);
        CHECK(whole.ranks.size() == static_cast<std::size_t>(world));
        for (Rank rank = 0; rank < world; ++rank) {
          CHECK(Project(entry, key, rank) == whole.ranks[static_cast<std::size_t>(rank)]);
        }
      }
    }
  }
}

TEST_CASE("no dependency is superfluous: without any single one, the schedule is refused") {
  Sample sample(7);
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (const int world : {2, 3, 5, 6, 8}) {
      // Most steps that wait for a signal do not need its information: the signal limits their pace, or the information
      // arrives twice. Only dissemination barriers of a power of two ranks need every signal.
      const bool news_needed =
          entry.algorithm == Algorithm::kDissemination && std::has_single_bit(static_cast<unsigned>(world));
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        if (!sample.Takes()) continue;
        Schedule schedule = Build(entry, key);
        for (RankSchedule& rank : schedule.ranks) {
          for (Step& step : rank.steps) {
            const std::vector<Dependency> all = step.dependencies;
            for (std::size_t dropped = 0; dropped < all.size(); ++dropped) {
              const bool on_signal = rank.steps[all[dropped].step].chunks.count == 0;
              if (on_signal && !(news_needed && step.kind == StepKind::kSend)) continue;
              step.dependencies.erase(step.dependencies.begin() + static_cast<std::ptrdiff_t>(dropped));
              CHECK_MESSAGE(!Verify(schedule).has_value(), Describe(key), ": rank ", rank.rank, " needs not wait for ",
                            all[dropped].step, " in ", Print(step));
              step.dependencies = all;
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a window holds exactly the steps on its chunks, and signals") {
  const AlgorithmEntry& ring = *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing);
  const ScheduleKey key = Key(Collective::kAllReduce, Algorithm::kRing, 5);
  const Schedule whole = Build(ring, key);
  const Schedule window = BuildWindow(ring, key, {2, 2});
  CHECK(window.chunks == whole.chunks);
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    std::vector<Step> expected;
    for (const Step& step : whole.ranks[r].steps) {
      if (step.chunks.first == 2 || step.chunks.first == 3) expected.push_back(step);
    }
    REQUIRE(window.ranks[r].steps.size() == expected.size());
    for (std::size_t s = 0; s < expected.size(); ++s) {
      CHECK(window.ranks[r].steps[s].transfer == expected[s].transfer);
      CHECK(window.ranks[r].steps[s].dependencies.size() == expected[s].dependencies.size());
    }
  }
}

TEST_CASE("in an exchange, combining never waits for the release of what is being sent") {
  for (const int world : {2, 4, 8, 16}) {
    for (const ScheduleKey& key :
         EveryKey(*FindAlgorithm(Collective::kAllReduce, Algorithm::kRecursiveDoubling), world)) {
      const Schedule schedule = Build(*FindAlgorithm(key.collective, key.algorithm), key);
      for (const RankSchedule& rank : schedule.ranks) {
        for (const Step& step : rank.steps) {
          if (step.kind != StepKind::kRecvReduce) continue;
          CHECK(step.source != step.destination);
          for (const Dependency& dependency : step.dependencies) {
            const Step& earlier = rank.steps[dependency.step];
            const bool own_exchange = earlier.kind == StepKind::kSend && earlier.peer == step.peer;
            CHECK_FALSE(own_exchange);
          }
        }
      }
    }
  }
}

TEST_CASE("a value that never moved is copied to the output, in place nothing is") {
  const AlgorithmEntry& tree = *FindAlgorithm(Collective::kBroadcast, Algorithm::kTree);
  ScheduleKey key = Key(Collective::kBroadcast, Algorithm::kTree, 3);
  key.root = 1;
  CHECK(Print(Project(tree, key, 1)) ==
        "rank 1\n"
        "  0: send output[0] to 0 transfer 0\n"
        "  1: send output[0] to 2 transfer 1\n");
  key.in_place = false;
  CHECK(Print(Project(tree, key, 1)) ==
        "rank 1\n"
        "  0: send input[0] to 0 transfer 0\n"
        "  1: send input[0] to 2 transfer 1\n"
        "  2: copy output[0] = input[0]\n");
}

TEST_CASE("an inner node of a tree hands on while it receives: its sends follow the receive, byte for byte") {
  const AlgorithmEntry& tree = *FindAlgorithm(Collective::kBroadcast, Algorithm::kTree);
  const RankSchedule inner = Project(tree, Key(Collective::kBroadcast, Algorithm::kTree, 8), 4);
  CHECK(Print(inner) ==
        "rank 4\n"
        "  0: recv output[0] from 0 transfer 0\n"
        "  1: send output[0] to 6 transfer 2 after 0 raw\n"
        "  2: send output[0] to 5 transfer 5 after 0 raw\n");
}

TEST_CASE("one rank of a ring of 1024 is projected without holding the world") {
  const AlgorithmEntry& ring = *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing);
  const RankSchedule rank = Project(ring, Key(Collective::kAllReduce, Algorithm::kRing, 1024), 1000);
  CHECK(rank.steps.size() == 4 * 1023);
  CHECK(VerifyRankOrder(rank).has_value());
}

// An algorithm for these tests only: one chunk moves once around a ring of copies within a single round.
void Rotate(const World& world, Transfers& out) {
  for (Rank from = 0; from < world.size; ++from) out.Reduce(from, Wrap(from + 1, world.size), Chunk(0));
  out.EndRound();
}

TEST_CASE("all transfers of a round read what their sender held before the round") {
  const AlgorithmEntry entry{Collective::kAllReduce, Algorithm::kRing, [](const World&) { return std::uint32_t{1}; },
                             Rotate};
  const Schedule schedule = Build(entry, Key(Collective::kAllReduce, Algorithm::kRing, 3));
  CHECK(Print(schedule.ranks[1]) ==
        "rank 1\n"
        "  scratch [0]\n"
        "  0: send output[0] to 2 transfer 1\n"
        "  1: recv_reduce scratch[0] = rank 0 op output[0] transfer 0\n"
        "  2: copy output[0] = scratch[0] after 0 war, 1 raw\n");
}

// Data that the rank sends in later rounds waits for every earlier signal.
void SignalsThenData(const World& world, Transfers& out) {
  out.Signal(1, 0);
  out.EndRound();
  out.Signal(2, 0);
  out.EndRound();
  out.Signal(2, 0);
  out.EndRound();
  out.Copy(world.root, 1, Chunk(0));
  out.Copy(world.root, 2, Chunk(0));
  out.EndRound();
}

TEST_CASE("a send waits for the last signal, which waits for those before it") {
  const AlgorithmEntry entry{Collective::kBroadcast, Algorithm::kTree, [](const World&) { return std::uint32_t{1}; },
                             SignalsThenData};
  const Schedule schedule = Build(entry, Key(Collective::kBroadcast, Algorithm::kTree, 3));
  CHECK(Print(schedule.ranks[0]) ==
        "rank 0\n"
        "  0: recv output[0:0] from 1 transfer 0\n"
        "  1: recv output[0:0] from 2 transfer 1 after 0 raw\n"
        "  2: recv output[0:0] from 2 transfer 2 after 1 raw\n"
        "  3: send output[0] to 1 transfer 3 after 2 raw\n"
        "  4: send output[0] to 2 transfer 4 after 2 raw\n");
  CHECK(Verify(schedule).has_value());
}

}  // namespace builder_test
}  // namespace rondo
