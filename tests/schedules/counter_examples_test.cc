// The proof can fail: deliberately broken schedules are refused, with a counter-example that shows where they are
// wrong. The first tests apply every mutation of mutate.h to every algorithm. The others are written by hand, one for
// each proved property.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <string>

#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/mutate.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/text.h"
#include "collectives/schedule/verify.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace counter_examples_test {

// The counter-example to a schedule that is given as text.
std::string CounterExample(std::string_view text) {
  const auto schedule = Parse(text);
  REQUIRE_MESSAGE(schedule.has_value(), (schedule ? "" : schedule.error().ToString()));
  const auto proof = Verify(*schedule);
  if (proof) return "proved";
  CHECK(proof.error().code() == ErrorCode::kInternal);
  return proof.error().message();
}

// A correct all-reduce of two ranks by exchange. Tests change one of its lines.
constexpr std::string_view kExchange = R"(schedule all_reduce recursive_doubling world 2 root 0 in_place chunks 1
rank 0
  scratch [0]
  0: send output[0] to 1 transfer 0
  1: recv_reduce scratch[0] = output[0] op rank 1 transfer 1 finish
  2: copy output[0] = scratch[0] after 0 war, 1 raw
rank 1
  scratch [0]
  0: send output[0] to 0 transfer 1
  1: recv_reduce scratch[0] = rank 0 op output[0] transfer 0 finish
  2: copy output[0] = scratch[0] after 0 war, 1 raw
)";

std::string WithChange(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const std::size_t at = changed.find(from);
  REQUIRE(at != std::string::npos);
  return changed.replace(at, from.size(), to);
}

TEST_CASE("every mutant of every algorithm is refused, and every mutation finds a place somewhere") {
  std::map<std::string, std::uint64_t> refused;
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    const auto reports = RefuseMutants(entry, /*max_world=*/kSanitized ? 5 : 7, /*attempts=*/2, /*seed=*/20240601);
    REQUIRE_MESSAGE(reports.has_value(), (reports ? "" : reports.error().ToString()));
    for (const MutationReport& report : *reports) {
      refused[report.name] += report.refused;
      if (report.refused > 0) {
        const bool says_where = report.counter_example.find("rank") != std::string::npos;
        CHECK_MESSAGE(says_where, report.counter_example);
      }
    }
  }
  CHECK(refused.size() == AllMutations().size());
  CHECK(refused.size() >= 30);
  for (const auto& mutation : refused)
    CHECK_MESSAGE(mutation.second >= (kSanitized ? 5 : 20), mutation.first, " ", mutation.second);
}

TEST_CASE("an exchange in two buffers is proved") { CHECK(CounterExample(kExchange) == "proved"); }

TEST_CASE("an exchange in one buffer waits for ever where nothing is buffered") {
  CHECK(CounterExample(R"(schedule all_reduce recursive_doubling world 2 root 0 in_place chunks 1
rank 0
  0: send output[0] to 1 transfer 0
  1: recv_reduce output[0] = output[0] op rank 1 transfer 1 finish after 0 war
rank 1
  0: send output[0] to 0 transfer 1
  1: recv_reduce output[0] = rank 0 op output[0] transfer 0 finish after 0 war
)") == "counter-example: these steps wait for each other forever:"
       "\n  rank 0 step 0 (send output[0] to 1 transfer 0), with rank 1 step 1 (recv_reduce output[0] = rank 0 op "
       "output[0] transfer 0 finish after 0 war), waits for"
       "\n  rank 1 step 0 (send output[0] to 0 transfer 1), with rank 0 step 1 (recv_reduce output[0] = output[0] op "
       "rank 1 transfer 1 finish after 0 war), waits for"
       "\n  the first of these again");
}

TEST_CASE("two lanes in opposite orders wait for ever, though every send has its receive") {
  const std::string text = CounterExample(R"(schedule barrier dissemination world 2 root 0 in_place chunks 1
rank 0
  0: recv output[0:0] from 1 transfer 1
  1: send input[0:0] to 1 transfer 0 after 0 raw
rank 1
  0: recv output[0:0] from 0 transfer 0
  1: send input[0:0] to 0 transfer 1 after 0 raw
)");
  CHECK(text.find("these steps wait for each other forever") != std::string::npos);
}

constexpr const char* kRunThatWaitsForItself = R"(schedule barrier dissemination world 2 root 0 in_place chunks 1
rank 0
  0: recv output[0:0] from 1 transfer 1
  1: send input[0:0] to 1 transfer 0
  2: send input[0:0] to 1 transfer 2 after 0 raw
rank 1
  0: recv output[0:0] from 0 transfer 0
  1: send input[0:0] to 0 transfer 1 after 0 raw
  2: recv output[0:0] from 0 transfer 2 after 0 raw
)";

TEST_CASE("sends of one run may be held back for one another, so none may lead to what another waits for") {
  const std::string text = CounterExample(kRunThatWaitsForItself);
  CHECK(text.find("these steps wait for each other forever") != std::string::npos);
  CHECK(text.find("goes together with one that waits for") != std::string::npos);
  const auto schedule = Parse(kRunThatWaitsForItself);
  REQUIRE(schedule);
  CHECK(VerifyRankOrder(schedule->ranks[0]).error().message().find("transfer 0, an earlier one, goes with it") !=
        std::string::npos);
}

TEST_CASE("sends with something between them are no run") {
  CHECK(CounterExample(R"(schedule barrier dissemination world 2 root 0 in_place chunks 1
rank 0
  0: send input[0:0] to 1 transfer 0
  1: recv output[0:0] from 1 transfer 1
  2: send input[0:0] to 1 transfer 2 after 1 raw
rank 1
  0: recv output[0:0] from 0 transfer 0
  1: send input[0:0] to 0 transfer 1 after 0 raw
  2: recv output[0:0] from 0 transfer 2 after 0 raw
)") == "proved");
}

TEST_CASE("overwriting what is still being sent is a race") {
  CHECK(CounterExample(WithChange(kExchange, "after 0 war, 1 raw", "after 1 raw")) ==
        "counter-example: rank 0 step 2 (copy output[0] = scratch[0] after 1 raw) may overwrite chunk 0 while rank 0 "
        "step 0 (send output[0] to 1 transfer 0) still reads it: nothing orders the two");
}

TEST_CASE("reading what is still being received is a race") {
  CHECK(CounterExample(R"(schedule broadcast tree world 3 root 0 in_place chunks 1
rank 0
  0: send output[0] to 1 transfer 0
rank 1
  0: recv output[0] from 0 transfer 0
  1: send output[0] to 2 transfer 1
rank 2
  0: recv output[0] from 1 transfer 1
)") == "counter-example: rank 1 step 1 (send output[0] to 2 transfer 1) may read chunk 0 while rank 1 step 0 (recv "
       "output[0] from 0 transfer 0) still writes it: nothing orders the two");
}

TEST_CASE("a later place in the lane does not mean that what was sent before is released") {
  // The receive waits for chunk 1. Chunk 0 went into the same lane earlier, but the lane may still read it.
  CHECK(CounterExample(R"(schedule broadcast ring world 2 root 0 in_place chunks 2
rank 0
  0: send output[0] to 1 transfer 0
  1: send output[1] to 1 transfer 1
  2: recv output[0:2] from 1 transfer 2 after 1 war
rank 1
  0: recv output[0] from 0 transfer 0
  1: recv output[1] from 0 transfer 1
  2: send output[0:2] to 0 transfer 2 after 0 raw, 1 raw
)") == "counter-example: rank 0 step 2 (recv output[0:2] from 1 transfer 2 after 1 war) may overwrite chunk 0 while "
       "rank 0 step 0 (send output[0] to 1 transfer 0) still reads it: nothing orders the two");
}

TEST_CASE("a chain of dependencies through other chunks orders nothing") {
  // Step 3 follows step 2 on chunk 1, but nothing orders step 2 and step 1 on chunk 0.
  CHECK(CounterExample(R"(schedule broadcast ring world 2 root 0 in_place chunks 2
rank 0
  0: send output[0] to 1 transfer 0
  1: send output[0:2] to 1 transfer 1
rank 1
  scratch [0:2]
  0: recv scratch[0] from 0 transfer 0
  1: recv output[0:2] from 0 transfer 1
  2: copy scratch[1] = output[1] after 1 raw
  3: copy output[0:2] = scratch[0:2] after 0 raw, 2 raw
)")
            .find("may overwrite chunk 0 while rank 1 step 1") != std::string::npos);
}

TEST_CASE("a lane's order does order what is received through it") {
  CHECK(CounterExample(R"(schedule broadcast ring world 2 root 0 in_place chunks 1
rank 0
  0: send output[0] to 1 transfer 0
  1: send output[0] to 1 transfer 1
rank 1
  0: recv output[0] from 0 transfer 0
  1: recv output[0] from 0 transfer 1
)") == "proved");
}

TEST_CASE("a dependency that says what is not so is refused") {
  CHECK(CounterExample(WithChange(kExchange, "after 0 war, 1 raw", "after 0 war, 1 waw")) ==
        "counter-example: rank 0 step 2 (copy output[0] = scratch[0] after 0 war, 1 waw) depends on rank 0 step 1 "
        "(recv_reduce scratch[0] = output[0] op rank 1 transfer 1 finish), but overwrites nothing that it writes");
  CHECK(CounterExample(WithChange(kExchange, "after 0 war, 1 raw", "after 0 raw, 1 raw"))
            .find("reads nothing that it "
                  "writes") != std::string::npos);
  CHECK(CounterExample(WithChange(kExchange, "after 0 war, 1 raw", "after 1 raw, 0 war")).find("not sorted") !=
        std::string::npos);
}

TEST_CASE("a transfer that another rank expects elsewhere is refused, with both ends") {
  CHECK(CounterExample(WithChange(kExchange, "send output[0] to 1 transfer 0", "send output[0] to 1 transfer 5")) ==
        "counter-example: the lane from rank 0 to rank 1 does not carry what was expected: rank 0 step 0 (send "
        "output[0] to 1 transfer 5) meets rank 1 step 1 (recv_reduce scratch[0] = rank 0 op output[0] transfer 0 "
        "finish)");
}

TEST_CASE("a contribution that counts twice is refused, by its rank") {
  CHECK(CounterExample(R"(schedule all_reduce tree world 2 root 0 in_place chunks 1
rank 0
  0: recv_reduce output[0] = output[0] op rank 1 transfer 0
  1: recv_reduce output[0] = output[0] op rank 1 transfer 1 after 0 raw
  2: send output[0] to 1 transfer 2 after 1 raw
rank 1
  0: send output[0] to 0 transfer 0
  1: send output[0] to 0 transfer 1
  2: recv output[0] from 0 transfer 2 after 0 war, 1 war
)") == "counter-example: chunk 0 of rank 0's output is ((0+1)+1), which was never finished");
  const std::string finished = R"(schedule all_reduce tree world 3 root 0 in_place chunks 1
rank 0
  0: recv_reduce output[0] = output[0] op rank 1 transfer 0
  1: recv_reduce output[0] = output[0] op rank 1 transfer 1 finish after 0 raw
  2: send output[0] to 1 transfer 2 after 1 raw
  3: send output[0] to 2 transfer 3 after 1 raw
rank 1
  0: send output[0] to 0 transfer 0
  1: send output[0] to 0 transfer 1
  2: recv output[0] from 0 transfer 2 after 0 war, 1 war
rank 2
  0: recv output[0] from 0 transfer 3
)";
  CHECK(CounterExample(finished) ==
        "counter-example: chunk 0 of rank 0's output holds rank 1's contribution 2 times: f(((0+1)+1))");
}

TEST_CASE("ranks that compute different expressions are refused, though each is a correct sum") {
  CHECK(CounterExample(WithChange(kExchange, "rank 0 op output[0] transfer 0", "output[0] op rank 0 transfer 0")) ==
        "counter-example: rank 1 step 1 (recv_reduce scratch[0] = output[0] op rank 0 transfer 0 finish) combines with "
        "the operands on the wrong sides: the lower rank's is the left one");
  // Rank 2 groups the operands differently from the other ranks: 0 + (1 + 2).
  CHECK(CounterExample(R"(schedule all_reduce tree world 3 root 0 out_of_place chunks 1
rank 0
  0: send input[0] to 1 transfer 0
  1: send input[0] to 2 transfer 1
  2: recv_reduce output[0] = input[0] op rank 1 transfer 4
  3: recv_reduce output[0] = output[0] op rank 2 transfer 5 finish after 2 raw
rank 1
  0: recv_reduce output[0] = rank 0 op input[0] transfer 0
  1: send input[0] to 2 transfer 2
  2: recv_reduce output[0] = output[0] op rank 2 transfer 3 finish after 0 raw
  3: send input[0] to 0 transfer 4
rank 2
  0: recv_reduce output[0] = rank 1 op input[0] transfer 2
  1: recv_reduce output[0] = rank 0 op output[0] transfer 1 finish after 0 raw
  2: send input[0] to 1 transfer 3
  3: send input[0] to 0 transfer 5
)") == "counter-example: chunk 0 of rank 2's output is f((0+(1+2))) and not f(((0+1)+2))");
}

TEST_CASE("an average that divides on the way is refused") {
  CHECK(CounterExample(WithChange(kExchange, "copy output[0] = scratch[0] after",
                                  "copy output[0] = scratch[0] finish "
                                  "after")) ==
        "counter-example: rank 0 step 2 (copy output[0] = scratch[0] finish after 0 war, 1 raw) finishes chunk 0, "
        "which is f((0+1)), not complete or already finished");
}

TEST_CASE("a contribution that was not scaled is refused") {
  CHECK(CounterExample(WithChange(kExchange, "in_place", "in_place scaled")) ==
        "counter-example: chunk 0 of rank 0's output holds rank 0's contribution unscaled");
}

TEST_CASE("an output that is never written is refused") {
  CHECK(CounterExample(R"(schedule broadcast tree world 2 root 1 in_place chunks 1
rank 0
rank 1
)") == "counter-example: chunk 0 of rank 0's output is never written");
}

TEST_CASE("reading a chunk that no step wrote is refused") {
  CHECK(
      CounterExample(R"(schedule broadcast tree world 2 root 1 in_place chunks 1
rank 0
  0: send output[0] to 1 transfer 0
rank 1
  0: recv output[0] from 0 transfer 0
)") ==
      "counter-example: rank 0 step 0 (send output[0] to 1 transfer 0) reads chunk 0, which no step has written there");
}

TEST_CASE("an out-of-place input stays intact, and in place the input is not named") {
  CHECK(CounterExample(R"(schedule broadcast tree world 2 root 0 out_of_place chunks 1
rank 0
  0: send input[0] to 1 transfer 0
  1: copy output[0] = input[0]
rank 1
  0: recv input[0] from 0 transfer 0
  1: copy output[0] = input[0] after 0 raw
)") == "counter-example: rank 1 step 0 (recv input[0] from 0 transfer 0) writes the input");
  CHECK(CounterExample(WithChange(kExchange, "send output[0] to 1", "send input[0] to 1"))
            .find("names the input of an "
                  "in-place collective") != std::string::npos);
}

TEST_CASE("a barrier that one may leave before another has come is refused, with both ranks") {
  CHECK(CounterExample(R"(schedule barrier dissemination world 3 root 0 in_place chunks 1
rank 0
  0: send input[0:0] to 1 transfer 0
  1: recv output[0:0] from 2 transfer 2
rank 1
  0: recv output[0:0] from 0 transfer 0
  1: send input[0:0] to 2 transfer 1 after 0 raw
rank 2
  0: recv output[0:0] from 1 transfer 1
  1: send input[0:0] to 0 transfer 2 after 0 raw
)") == "counter-example: rank 1 may leave the barrier before rank 2 has arrived");
}

TEST_CASE("in a barrier, what a rank merely sends later tells nothing: only a dependency does") {
  CHECK(CounterExample(R"(schedule barrier dissemination world 2 root 0 in_place chunks 1
rank 0
  0: send input[0:0] to 1 transfer 0
  1: recv output[0:0] from 1 transfer 1
rank 1
  0: recv output[0:0] from 0 transfer 0
  1: send input[0:0] to 0 transfer 1
)") == "proved");
}

TEST_CASE("of one rank's list alone, waiting for a later transfer is refused") {
  RankSchedule rank =
      Project(*FindAlgorithm(Collective::kAllReduce, Algorithm::kRing),
              {.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .world_size = 5}, 2);
  CHECK(VerifyRankOrder(rank).has_value());
  RankSchedule swapped = rank;
  std::swap(swapped.steps[0].transfer, swapped.steps[2].transfer);  // two sends on one lane
  CHECK(VerifyRankOrder(swapped).error().message().find("rank 2 step 2") != std::string::npos);
  RankSchedule late = rank;
  late.steps[1].transfer = 1000;
  CHECK(VerifyRankOrder(late).error().message().find("waits for transfer 1000") != std::string::npos);
  RankSchedule forward = rank;
  forward.steps[2].dependencies[0].step = 2;
  CHECK(VerifyRankOrder(forward).error().message().find("does not come before it") != std::string::npos);
}

TEST_CASE("of one lane alone, both ends must agree") {
  const AlgorithmEntry& ring = *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing);
  const Schedule whole =
      Build(ring, {.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .world_size = 5});
  CHECK(VerifyLane(whole.ranks[2], whole.ranks[3]).has_value());
  CHECK(VerifyLane(whole.ranks[3], whole.ranks[2]).has_value());  // the lane carries nothing
  RankSchedule shorter = whole.ranks[3];
  shorter.steps.pop_back();
  CHECK(VerifyLane(whole.ranks[2], shorter).error().message().find("meets (nothing)") != std::string::npos);
  shorter = whole.ranks[2];
  while (shorter.steps.back().kind != StepKind::kSend) shorter.steps.pop_back();
  shorter.steps.pop_back();
  CHECK(VerifyLane(shorter, whole.ranks[3]).error().message().find("nothing meets") != std::string::npos);
}

TEST_CASE("sums that double again and again are refused, in no more time than the schedule is long") {
  // In turn, each of two ranks adds the other's sum to its own, eighty times. Then rank 1 copies rank 0's sum. Each
  // result is now an expression of about 10^33 contributions.
  std::string one = "schedule all_reduce ring world 2 root 0 in_place chunks 1\nrank 0\n", other = "rank 1\n";
  constexpr int kTimes = 80;
  for (int i = 0; i < kTimes; ++i) {
    const int s = 2 * i;
    const std::string after_last = i == 0 ? "" : fmt::format("{} raw, ", s - 1);
    one += fmt::format("  {0}: send output[0] to 1 transfer {0}{1}\n", s,
                       i == 0 ? "" : fmt::format(" after {} raw", s - 1));
    one += fmt::format("  {0}: recv_reduce output[0] = output[0] op rank 1 transfer {0} after {1}{2} war\n", s + 1,
                       after_last, s);
    other += fmt::format("  {0}: recv_reduce output[0] = rank 0 op output[0] transfer {0}{1}\n", s,
                         i == 0 ? "" : fmt::format(" after {} raw, {} war", s - 2, s - 1));
    other += fmt::format("  {0}: send output[0] to 0 transfer {0} after {1} raw\n", s + 1, s);
  }
  constexpr int kLast = 2 * kTimes;
  one += fmt::format("  {0}: send output[0] to 1 transfer {0} after {1} raw\n", kLast, kLast - 1);
  other +=
      fmt::format("  {0}: recv output[0] from 0 transfer {0} after {1} waw, {2} war\n", kLast, kLast - 2, kLast - 1);
  CHECK(CounterExample(one + other) ==
        "counter-example: chunk 0 of rank 0's output is an expression of 4294967295 contributions, of 2 ranks");
}

}  // namespace counter_examples_test
}  // namespace rondo
