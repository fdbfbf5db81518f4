// Tests fault plans as text: parsing, printing, plans that are refused, and the replay of random plans.
#include "transport/fault/fault_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

namespace rondo::fault {
namespace fault_plan_test {

Fault Only(std::string_view text) {
  const auto plan = ParseFaultPlan(text);
  REQUIRE_MESSAGE(plan, plan.error().ToString());
  REQUIRE(plan->faults.size() == 1);
  return plan->faults.front();
}

TEST_CASE("every verb is read, and printed as it was written") {
  for (const char* text : {
           "cut@lane(0->1):bytes=4096",
           "cut@all:bytes=0",
           "cut@lane(12->3)#1:bytes=18446744073709551615",
           "corrupt@lane(2->3):bytes=100",
           "corrupt@lane(2->3)#7:bytes=100,bit=0",
           "slice@all:1",
           "slice@lane(0->1):4096",
           "stall@lane(0->1):bytes=64",
           "stall@all:bytes=64,for_ms=50",
           "kill@rank(2):bytes=1000000",
           "drop_control(1->0)",
           "drop_control(1->0):after=3",
           "fail_open(1->2):resource",
           "fail_open(1->2):out_of_memory",
       }) {
    CAPTURE(text);
    CHECK(ToString(Only(text)) == text);
  }
}

TEST_CASE("what is read is what was meant") {
  CHECK(Only("cut@lane(0->1):bytes=4096") == Fault{.kind = FaultKind::kCut, .from = 0, .to = 1, .bytes = 4096});
  CHECK(Only("slice@all:3") == Fault{.kind = FaultKind::kSlice, .bytes = 3});
  CHECK(Only("stall@lane(1->2)#4:bytes=64,for_ms=50") ==
        Fault{.kind = FaultKind::kStall, .from = 1, .to = 2, .lane = 4, .bytes = 64, .for_ms = 50});
  CHECK(Only("corrupt@all:bytes=1,bit=7") == Fault{.kind = FaultKind::kCorrupt, .bytes = 1, .bit = 7});
  CHECK(Only("kill@rank(2):bytes=9") == Fault{.kind = FaultKind::kKill, .from = 2, .bytes = 9});
  CHECK(Only("drop_control(1->0):after=3") == Fault{.kind = FaultKind::kDropControl, .from = 1, .to = 0, .bytes = 3});
  CHECK(Only("fail_open(1->2):timeout") ==
        Fault{.kind = FaultKind::kFailOpen, .from = 1, .to = 2, .code = ErrorCode::kTimeout});
}

TEST_CASE("several faults stand side by side; blanks, line ends and empty ones do not count") {
  const auto plan = ParseFaultPlan(" slice@all:1 ;\n\tcut@lane(0->1):bytes=2;;\n");
  REQUIRE(plan);
  CHECK(plan->faults.size() == 2);
  CHECK(ToString(*plan) == "slice@all:1; cut@lane(0->1):bytes=2");
  CHECK(ParseFaultPlan(ToString(*plan)) == *plan);
  CHECK(ParseFaultPlan("")->faults.empty());
  CHECK(ParseFaultPlan(" ; ")->faults.empty());
}

TEST_CASE("an unreadable plan is refused with the fault, the place and what is expected") {
  struct Wrong {
    const char* text;
    const char* part;
  };
  const Wrong wrong[] = {
      {"cut", "fault 'cut': expected one of cut@, corrupt@"},
      {"cut@", "expected 'all' or 'lane(...)', got ''"},
      {"cut@lane(0-1):bytes=1", "expected '->', got '-1):bytes=1'"},
      {"cut@lane(0->0):bytes=1", "rank 0 is its own peer"},
      {"cut@lane(-1->0):bytes=1", "expected a rank (0..2147483647), got '-1->0"},
      {"cut@all", "expected ':bytes=', got ''"},
      {"cut@all:bytes=", "a number of bytes"},
      {"cut@all:bytes=18446744073709551616", "a number of bytes"},
      {"cut@all:bytes=1,bit=2", "expected the end, got ',bit=2'"},
      {"slice@all:0", "at least 1 byte"},
      {"corrupt@all:bytes=1,bit=8", "expected a bit (0..7), got '8'"},
      {"stall@all:bytes=1,for_ms=-2", "milliseconds"},
      {"kill@lane(0->1):bytes=2", "one of cut@"},
      {"drop_control(0->1", "expected ')'"},
      {"fail_open(0->1):bad_luck", "expected the name of an error code, such as 'resource', got 'bad_luck'"},
      {"cut@all:bytes=1; nonsense", "fault 'nonsense'"},
  };
  for (const Wrong& one : wrong) {
    CAPTURE(one.text);
    const auto plan = ParseFaultPlan(one.text);
    REQUIRE_FALSE(plan.has_value());
    CAPTURE(plan.error().message());
    CHECK(plan.error().code() == ErrorCode::kInvalidArgument);
    CHECK(plan.error().message().find(one.part) != std::string::npos);
  }
}

TEST_CASE("a random plan is the seed's, survives text, and stays within its options") {
  std::set<FaultKind> kinds;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    const RandomPlanOptions options{
        .world_size = 2 + static_cast<int>(seed % 4), .max_faults = 3, .max_bytes = 5000, .kills = seed % 2 == 0};
    Random random(seed), again(seed);
    const FaultPlan plan = RandomFaultPlan(options, random);
    CHECK(plan == RandomFaultPlan(options, again));
    REQUIRE_FALSE(plan.faults.empty());
    CHECK(plan.faults.size() <= 3);
    CAPTURE(ToString(plan));
    const auto read = ParseFaultPlan(ToString(plan));
    REQUIRE(read);
    CHECK(*read == plan);
    for (const Fault& fault : plan.faults) {
      kinds.insert(fault.kind);
      CHECK(fault.from < options.world_size);
      CHECK(fault.to < options.world_size);
      CHECK(fault.bytes <= 5000);
      if (!options.kills) CHECK(fault.kind != FaultKind::kKill);
    }
  }
  CHECK(kinds.size() == 7);
}

TEST_CASE("a harmless random plan slices, and stalls for a while, nothing else") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    for (const Fault& fault : RandomFaultPlan({.harmless = true}, random).faults) {
      CHECK((fault.kind == FaultKind::kSlice || (fault.kind == FaultKind::kStall && fault.for_ms)));
    }
  }
}

}  // namespace fault_plan_test
}  // namespace rondo::fault
