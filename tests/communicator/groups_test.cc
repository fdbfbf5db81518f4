// Which ranks form a group, and the list of a communicator's groups.
#include "collectives/communicator/groups.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace rondo {
namespace groups_test {

std::vector<Rank> MembersOf(std::span<const SplitRequest> requests, Rank self) {
  const auto members = GroupMembers(requests, self);
  REQUIRE(members);
  return *members;
}

TEST_CASE("a group has the ranks of one color, ordered by key and then by rank") {
  const std::vector<SplitRequest> requests = {{.color = 0, .key = 9}, {.color = 1, .key = 5},  {.color = 0, .key = 3},
                                              {.color = -1},          {.color = 1, .key = -2}, {.color = 0, .key = 3}};
  for (const Rank self : {0, 2, 5}) CHECK(MembersOf(requests, self) == std::vector<Rank>{2, 5, 0});
  for (const Rank self : {1, 4}) CHECK(MembersOf(requests, self) == std::vector<Rank>{4, 1});
}

TEST_CASE("ranks of one color must ask for the same rails; those of another color need not") {
  std::vector<SplitRequest> requests = {{.color = 0, .rails = 2}, {.color = 1, .rails = 1}, {.color = 0, .rails = 2}};
  CHECK(MembersOf(requests, 2) == std::vector<Rank>{0, 2});
  for (const bool first : {false, true}) {
    CAPTURE(first);
    auto other = requests;
    first ? other[0].first_rail = 1 : other[0].rails = 3;
    const auto members = GroupMembers(other, 2);
    REQUIRE_FALSE(members);
    CHECK(members.error().code() == ErrorCode::kMismatch);
    CHECK(members.error().message().find("rank 2 asked for 2 rails from rail 0 on, but rank 0") != std::string::npos);
  }
}

TEST_CASE("a rank of the parent has a rank in the group if it is a member, whatever a peer says") {
  const std::array<Rank, 4> parent = {7, 3, 5, 9};
  const std::array<Rank, 2> group = {9, 3};
  CHECK(RankInGroup(1, parent, group) == 1);
  CHECK(RankInGroup(3, parent, group) == 0);
  for (const Rank none : {0, 2, 4, 1000, kNoRank}) CHECK(RankInGroup(none, parent, group) == kNoRank);
}

TEST_CASE("a communicator knows its groups only as long as others keep them") {
  ChildGroups<int> groups;
  CHECK(groups.Newest() == nullptr);
  auto one = std::make_shared<int>(1);
  const auto two = std::make_shared<int>(2);
  groups.Add(one);
  groups.Add(two);
  CHECK(groups.Newest() == two);
  CHECK(groups.Live() == std::vector<std::shared_ptr<int>>{one, two});
  CHECK(groups.Find([](int child) { return child == 1; }) == one);
  CHECK(groups.Find([](int child) { return child == 3; }) == nullptr);
  one.reset();
  CHECK(groups.Find([](int child) { return child == 1; }) == nullptr);
  {
    const auto three = std::make_shared<int>(3);
    groups.Add(three);
    CHECK(groups.Live() == std::vector<std::shared_ptr<int>>{two, three});
  }
  CHECK(groups.Newest() == nullptr);
  CHECK(groups.Live() == std::vector<std::shared_ptr<int>>{two});
}

}  // namespace groups_test
}  // namespace rondo
