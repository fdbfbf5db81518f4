// Schedules as text: expected texts of a ring and a tree, and parsing.
#include "collectives/schedule/text.h"

#include <doctest/doctest.h>

#include <string>

#include "base/random.h"
#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/verify.h"

namespace rondo {
namespace text_test {

constexpr std::string_view kRingOfThree = R"(schedule all_reduce ring world 3 root 0 in_place chunks 3
rank 0
  0: send output[2] to 1 transfer 2
  1: recv_reduce output[1] = output[1] op rank 2 transfer 1
  2: send output[1] to 1 transfer 4 after 1 raw
  3: recv_reduce output[0] = output[0] op rank 2 transfer 3 finish
  4: send output[0] to 1 transfer 6 after 3 raw
  5: recv output[2] from 2 transfer 8 after 0 war
  6: send output[2] to 1 transfer 11 after 5 raw
  7: recv output[1] from 2 transfer 10 after 2 war
rank 1
  0: send output[0] to 2 transfer 0
  1: recv_reduce output[2] = rank 0 op output[2] transfer 2
  2: send output[2] to 2 transfer 5 after 1 raw
  3: recv_reduce output[1] = rank 0 op output[1] transfer 4 finish
  4: send output[1] to 2 transfer 7 after 3 raw
  5: recv output[0] from 0 transfer 6 after 0 war
  6: send output[0] to 2 transfer 9 after 5 raw
  7: recv output[2] from 0 transfer 11 after 2 war
rank 2
  0: send output[1] to 0 transfer 1
  1: recv_reduce output[0] = rank 1 op output[0] transfer 0
  2: send output[0] to 0 transfer 3 after 1 raw
  3: recv_reduce output[2] = rank 1 op output[2] transfer 5 finish
  4: send output[2] to 0 transfer 8 after 3 raw
  5: recv output[1] from 1 transfer 7 after 0 war
  6: send output[1] to 0 transfer 10 after 5 raw
  7: recv output[0] from 1 transfer 9 after 2 war
)";

constexpr std::string_view kTreeOfFive = R"(schedule all_reduce tree world 5 root 0 out_of_place chunks 1
rank 0
  0: recv_reduce output[0] = input[0] op rank 1 transfer 0
  1: recv_reduce output[0] = output[0] op rank 2 transfer 2 after 0 raw
  2: recv_reduce output[0] = output[0] op rank 4 transfer 3 finish after 1 raw
  3: send output[0] to 4 transfer 4 after 2 raw
  4: send output[0] to 2 transfer 5 after 2 raw
  5: send output[0] to 1 transfer 6 after 2 raw
rank 1
  0: send input[0] to 0 transfer 0
  1: recv output[0] from 0 transfer 6
rank 2
  0: recv_reduce output[0] = input[0] op rank 3 transfer 1
  1: send output[0] to 0 transfer 2 after 0 raw
  2: recv output[0] from 0 transfer 5 after 1 war
  3: send output[0] to 3 transfer 7 after 2 raw
rank 3
  0: send input[0] to 2 transfer 1
  1: recv output[0] from 2 transfer 7
rank 4
  0: send input[0] to 0 transfer 3
  1: recv output[0] from 0 transfer 4
)";

std::string Printed(const ScheduleKey& key) { return Print(Build(*FindAlgorithm(key.collective, key.algorithm), key)); }

// The error of Parse for a schedule in which one line is replaced.
std::string ErrorOf(std::string_view line, std::string_view by) {
  std::string text(kTreeOfFive);
  const std::size_t at = text.find(line);
  REQUIRE(at != std::string::npos);
  text.replace(at, line.size(), by);
  const auto parsed = Parse(text);
  if (parsed) return "no error";
  CHECK(parsed.error().code() == ErrorCode::kInvalidArgument);
  return parsed.error().message();
}

TEST_CASE("a ring of three, in place, is this") {
  CHECK(Printed({.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .world_size = 3}) ==
        kRingOfThree);
}

TEST_CASE("a tree of five, out of place, is this") {
  CHECK(
      Printed(
          {.collective = Collective::kAllReduce, .algorithm = Algorithm::kTree, .world_size = 5, .in_place = false}) ==
      kTreeOfFive);
}

TEST_CASE("a scaled exchange of two, in place, is this") {
  CHECK(Printed({.collective = Collective::kAllReduce,
                 .algorithm = Algorithm::kRecursiveDoubling,
                 .world_size = 2,
                 .scaled = true}) ==
        R"(schedule all_reduce recursive_doubling world 2 root 0 in_place scaled chunks 1
rank 0
  scratch [0]
  0: copy output[0] = output[0] scale
  1: send output[0] to 1 transfer 0 after 0 raw
  2: recv_reduce scratch[0] = output[0] op rank 1 transfer 1 finish after 0 raw
  3: copy output[0] = scratch[0] after 1 war, 2 raw
rank 1
  scratch [0]
  0: copy output[0] = output[0] scale
  1: send output[0] to 0 transfer 1 after 0 raw
  2: recv_reduce scratch[0] = rank 0 op output[0] transfer 0 finish after 0 raw
  3: copy output[0] = scratch[0] after 1 war, 2 raw
)");
}

TEST_CASE("a barrier of three is this") {
  CHECK(Printed({.collective = Collective::kBarrier, .algorithm = Algorithm::kDissemination, .world_size = 3}) ==
        R"(schedule barrier dissemination world 3 root 0 in_place chunks 1
rank 0
  0: send input[0:0] to 1 transfer 0
  1: recv output[0:0] from 2 transfer 2
  2: send input[0:0] to 2 transfer 3 after 1 raw
  3: recv output[0:0] from 1 transfer 4 after 1 raw
rank 1
  0: send input[0:0] to 2 transfer 1
  1: recv output[0:0] from 0 transfer 0
  2: send input[0:0] to 0 transfer 4 after 1 raw
  3: recv output[0:0] from 2 transfer 5 after 1 raw
rank 2
  0: send input[0:0] to 0 transfer 2
  1: recv output[0:0] from 1 transfer 1
  2: send input[0:0] to 1 transfer 5 after 1 raw
  3: recv output[0:0] from 0 transfer 3 after 1 raw
)");
}

TEST_CASE("text parses back to the same schedule, for every algorithm") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (int world = 1; world <= 9; ++world) {
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        const Schedule schedule = Build(entry, key);
        const auto parsed = Parse(Print(schedule));
        REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().ToString()));
        CHECK_MESSAGE(*parsed == schedule, Describe(key));
      }
    }
  }
}

TEST_CASE("remarks, empty lines and blanks do not matter") {
  const auto parsed = Parse(
      "# nothing to do\n\n\tschedule all_reduce ring world 1 root 0 out_of_place chunks 1\r\n"
      "rank 0   # all by itself\n0 : copy output [0:1] = input[ 0 ]");
  REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().ToString()));
  CHECK(
      *parsed ==
      Build(*FindAlgorithm(Collective::kAllReduce, Algorithm::kRing),
            {.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .world_size = 1, .in_place = false}));
}

TEST_CASE("a parse error names the line, what was expected and what stands there") {
  CHECK(ErrorOf("schedule all_reduce", "plan all_reduce") ==
        "schedule text, line 1: expected \"schedule\", found \"plan\"");
  CHECK(ErrorOf("all_reduce tree", "all_reduce shrub") == "schedule text, line 1: no such algorithm");
  CHECK(ErrorOf("all_reduce tree", "al_reduce tree") == "schedule text, line 1: no such collective");
  CHECK(ErrorOf("out_of_place", "somewhere") ==
        "schedule text, line 1: expected in_place or out_of_place, found \"somewhere\"");
  CHECK(ErrorOf("chunks 1\n", "chunks\n") ==
        "schedule text, line 1: expected the number of chunks, found the end of the line");
  CHECK(ErrorOf("world 5", "world 99999999999") ==
        "schedule text, line 1: expected the number of ranks, found \"99999999999\"");
  CHECK(ErrorOf("send input[0] to 0", "shout input[0] to 0") ==
        "schedule text, line 10: expected send, recv, recv_reduce, copy or reduce, found \"shout\"");
  CHECK(ErrorOf("send input[0] to 0", "send memory[0] to 0") ==
        "schedule text, line 10: expected input, output or scratch, found \"memory\"");
  CHECK(ErrorOf("send input[0] to 0", "send input[2:1] to 0") ==
        "schedule text, line 10: the range [2:1] ends before it begins");
  CHECK(ErrorOf("output[0] = input[0] op rank 1", "output[0] = input[1] op rank 1") ==
        "schedule text, line 3: a step works on the same chunks in all buffers, not on [0:1] and [1:2]");
  CHECK(ErrorOf("after 2 raw", "after 2 war, 1 rum") ==
        "schedule text, line 6: expected raw, war or waw, found \"rum\"");
  CHECK(ErrorOf("after 2 raw", "after 2 raw!") == "schedule text, line 6: expected the end of the line, found \"!\"");
  CHECK(ErrorOf("  4: send", "  5: send") == "schedule text, line 7: the next step of rank 0 is 4");
  CHECK(ErrorOf("rank 1\n", "rank 2\n") == "schedule text, line 9: found rank 2, expected rank 1");
  CHECK(ErrorOf("rank 4\n", "") == "schedule text, line 20: the next step of rank 3 is 2");
}

TEST_CASE("damaged text is refused, or is another schedule that prints as itself") {
  Random random(11);
  int refused = 0;
  constexpr int kTries = 3000;
  constexpr std::string_view kLetters = "0123456789 :,[]=#\nabeorsw";
  for (int i = 0; i < kTries; ++i) {
    std::string text(i % 2 == 0 ? kRingOfThree : kTreeOfFive);
    for (std::uint64_t edits = 1 + random.Below(3); edits > 0; --edits) {
      const std::size_t at = random.Below(text.size());
      switch (random.Below(3)) {
        case 0: text[at] = kLetters[random.Below(kLetters.size())]; break;
        case 1: text.erase(at, 1 + random.Below(20)); break;
        default: text.insert(at, text.substr(random.Below(text.size()), random.Below(20))); break;
      }
    }
    const auto parsed = Parse(text);
    if (!parsed) {
      ++refused;
      CHECK(parsed.error().message().starts_with("schedule text"));
      continue;
    }
    CHECK(*Parse(Print(*parsed)) == *parsed);
    // Verify may accept or refuse the schedule, but it must not crash.
    if (parsed->chunks <= 64) (void)Verify(*parsed);
  }
  CHECK(refused > kTries / 2);
  CHECK(refused < kTries);
}

TEST_CASE("text that ends early says what is missing") {
  CHECK(Parse("\n# nothing\n").error().message() == "schedule text: all lines are empty");
  CHECK(Parse("schedule barrier dissemination world 2 root 0 in_place chunks 1\nrank 0\n").error().message() ==
        "schedule text: found 1 of 2 ranks");
  CHECK(Parse("schedule barrier dissemination world 1 root 0 in_place chunks 1\n0: send").error().message() ==
        "schedule text, line 2: expected \"rank\", found \"0\"");
}

}  // namespace text_test
}  // namespace rondo
