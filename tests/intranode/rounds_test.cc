// The rounds of the intranode path: when a rank may write, which slots are taken, and the errors for a rank that is in
// another operation or a later round.
#include "collectives/intranode/rounds.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/engine/plain_shared_segment.h"

namespace rondo {
namespace rounds_test {

using Wanted = SlotRounds::Wanted;

// One of several ranks that share a segment.
struct RoundsOfRank {
  RoundsOfRank(PlainSharedSegment& shared_segment, Rank rank, int world_size)
      : segment(rank, world_size, shared_segment) {}

  void Begin(Wanted wanted = Wanted::kAll) {
    ++operation.sequence;
    rounds.StartOperation();
    rounds.Begin(wanted);
  }
  void Publish() {
    REQUIRE(*rounds.MayWrite());
    rounds.OnWriting();
    rounds.Publish();
  }
  // Takes all slots that can be taken now, and returns their ranks in order. REQUIRES: no rank is in another operation.
  std::vector<Rank> Take() {
    std::vector<Rank> taken;
    bool moved = false;
    const auto all = rounds.TakeArrived(moved, [&](Rank rank) { taken.push_back(rank); });
    REQUIRE(all);
    CHECK(moved == !taken.empty());
    has_all = *all;
    return taken;
  }

  IntranodeSegment segment;
  OperationDescriptor operation{.collective = Collective::kBroadcast, .algorithm = Algorithm::kIntranode, .root = 1};
  SlotRounds rounds{segment, operation};
  bool has_all = false;
};

TEST_CASE("a rank writes its slot only after all have published the round before") {
  PlainSharedSegment shared_segment(2, 1024);
  RoundsOfRank early(shared_segment, 0, 2), late(shared_segment, 1, 2);
  early.Begin(Wanted::kNone);
  early.Publish();
  early.Begin(Wanted::kNone);
  CHECK(!*early.rounds.MayWrite());
  CHECK(early.rounds.WaitsFor(1));
  CHECK(!early.rounds.HasNews());
  late.Begin(Wanted::kNone);
  late.Publish();
  CHECK(!early.rounds.WaitsFor(1));
  CHECK(early.rounds.HasNews());
  CHECK(*early.rounds.MayWrite());
}

TEST_CASE("slots are taken in the ranks' order, each once, as far as they are needed") {
  PlainSharedSegment shared_segment(3, 1024);
  RoundsOfRank all(shared_segment, 0, 3), root(shared_segment, 1, 3), none(shared_segment, 2, 3);
  all.Begin(Wanted::kAll);
  root.Begin(Wanted::kRoot);
  none.Begin(Wanted::kNone);
  none.Publish();
  CHECK(none.Take().empty());
  CHECK(none.has_all);
  all.Publish();
  CHECK(all.Take() == std::vector<Rank>{0});
  CHECK(!all.has_all);
  CHECK(all.rounds.WaitsFor(1));
  CHECK(!all.rounds.WaitsFor(2));  // rank 2's slot has arrived, but is not taken yet
  CHECK(!all.rounds.HasNews());
  root.Publish();
  CHECK(root.Take() == std::vector<Rank>{1});
  CHECK(root.has_all);
  CHECK(all.rounds.HasNews());
  CHECK(all.Take() == std::vector<Rank>{1, 2});
  CHECK(all.has_all);
  CHECK(all.Take().empty());
}

TEST_CASE("a rank that needs all slots together has no news before the last of them") {
  PlainSharedSegment shared_segment(3, 1024);
  RoundsOfRank own(shared_segment, 0, 3), second(shared_segment, 1, 3), third(shared_segment, 2, 3);
  own.Begin(Wanted::kAllTogether);
  own.Publish();
  second.Begin();
  second.Publish();
  CHECK(!own.rounds.HasNews());
  third.Begin();
  third.Publish();
  CHECK(own.rounds.HasNews());
}

TEST_CASE("a slot of another operation, or of a later round, is an error that names its rank") {
  PlainSharedSegment shared_segment(2, 1024);
  RoundsOfRank own(shared_segment, 0, 2), other(shared_segment, 1, 2);
  other.operation.count = 7;
  own.Begin();
  own.Publish();
  other.Begin();
  other.Publish();
  bool moved = false;
  const auto ignore = [](Rank) {};
  const auto differs = own.rounds.TakeArrived(moved, ignore);
  REQUIRE(!differs);
  CHECK(differs.error().code() == ErrorCode::kMismatch);
  CHECK(differs.error().culprit() == 1);
  // Two rounds later the rank uses the same slot.
  other.segment.SlotOf(1, 1).round.store(3);
  const auto ahead = own.rounds.TakeArrived(moved, ignore);
  REQUIRE(!ahead);
  CHECK(ahead.error().code() == ErrorCode::kProtocol);
  CHECK(ahead.error().culprit() == 1);
  CHECK(ahead.error().message() == "rank 1 is at round 3 of the shared segment, expected round 1");
}

}  // namespace rounds_test
}  // namespace rondo
