// Events of peers: the class to which each event is passed, and the events that fail the communicator.
#include "collectives/communicator/peer_events.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator/peer_errors.h"
#include "collectives/point_to_point/message_frame.h"
#include "tests/communicator/failing_rank.h"

namespace rondo {
namespace peer_events_test {

// A map of goodbyes. It can be set to fail instead of answering.
class GoodbyesInMap final : public KeptGoodbyes {
 public:
  std::string Describe() const override { return "the map"; }
  Status Keep(std::uint64_t, Rank, const std::string&) override { return {}; }
  Result<std::optional<std::string>> Find(std::uint64_t communicator, Rank rank) override {
    CHECK(communicator == 17);
    asked.push_back(rank);
    if (fails) return Fail(ErrorCode::kTimeout, "no answer");
    const auto at = goodbyes.find(rank);
    if (at == goodbyes.end()) return std::nullopt;
    return at->second;
  }

  std::map<Rank, std::string> goodbyes;
  bool fails = false;
  std::vector<Rank> asked;
};

// A rank that is the listener of its own events. The test sets what the listener's functions return, and the listener
// counts calls of WakeOwner.
struct Receiver final : FailingRank, PeerEventListener {
  void WakeOwner() override { ++wakes; }
  bool AdoptParentFailure() override { return parent_has_failed; }
  bool IsNewGroup() const override { return is_new_group; }

  void Receive(Rank from, ControlKind kind, std::string body) { events.OnControl(from, {kind, std::move(body)}); }

  int wakes = 0;
  bool parent_has_failed = false, is_new_group = false;
  std::shared_ptr<GoodbyesInMap> kept = std::make_shared<GoodbyesInMap>();
  SubmissionQueue submissions{8};
  PeerEvents events{17, names, peers, failure, submissions, kept, clock, *this};
};

Error Lost(Rank peer) { return WithCulprit(ErrorCode::kPeerLost, "its connection ended", peer); }

TEST_CASE("reports and goodbyes are kept and counted, a goodbye wakes the owner, and all show that the peer lives") {
  Receiver rank;
  rank.Receive(1, ControlKind::kHeartbeat, Encode(ProgressReport{{.sequence = 5}}));
  CHECK(rank.peers.ViewOf(1).report->current.sequence == 5);
  CHECK(rank.peers.ViewOf(1).last_received_at == rank.clock.Now());
  CHECK(rank.events.count() == 1);
  CHECK(rank.wakes == 0);
  rank.Receive(3, ControlKind::kGoodbye, Encode(Goodbye{{.sequence = 7}}));
  CHECK(rank.peers.ViewOf(3).goodbye->last.sequence == 7);
  CHECK(rank.events.count() == 2);
  CHECK(rank.wakes == 1);
  CHECK_FALSE(rank.failure.has_failed());
}

TEST_CASE("an empty heartbeat is no report, and the call of a lane of messages goes to the submissions") {
  Receiver rank;
  rank.Receive(1, ControlKind::kHeartbeat, "");
  CHECK_FALSE(rank.submissions.in_use());
  rank.Receive(1, ControlKind::kHeartbeat, LaneCall());
  CHECK(rank.submissions.TakePeerCalls() == std::vector<Rank>{1});
  CHECK(rank.events.count() == 0);
  CHECK_FALSE(rank.peers.ViewOf(1).report);
}

TEST_CASE("a notice is the first cause, in its words, and goes on to the peers that have got none") {
  Receiver rank;
  rank.control->connected = {0, 1};
  const Error cause = WithCulprit(ErrorCode::kTimeout, "rank 3 is late", 3);
  rank.Receive(1, ControlKind::kAbort, Encode(NoticeOf(cause, 0)));
  CHECK(rank.failure.cause()->culprit() == 3);
  CHECK(rank.failure.reporter() == 0);
  REQUIRE(rank.control->sent.size() == 2);
  const auto sent = DecodeAbortNotice(rank.control->sent[0].second.body);
  CHECK((sent && sent->origin == 0 && sent->message == "rank 3 is late"));
}

TEST_CASE("a heartbeat to a failed communicator is answered with the cause") {
  Receiver rank;
  rank.failure.Begin(Lost(3));
  rank.control->connected = {1};
  rank.Receive(1, ControlKind::kHeartbeat, Encode(ProgressReport{{.sequence = 5}}));
  REQUIRE(rank.control->sent.size() == 1);
  CHECK(rank.control->sent[0].first == 1);
  CHECK(rank.control->sent[0].second.kind == ControlKind::kAbort);
  CHECK_FALSE(rank.peers.ViewOf(1).report);
}

TEST_CASE("a goodbye or a notice that cannot be read is its sender's fault") {
  for (const ControlKind kind : {ControlKind::kGoodbye, ControlKind::kAbort}) {
    Receiver rank;
    rank.Receive(1, kind, "?");
    REQUIRE(rank.failure.has_failed());
    CHECK(rank.failure.cause()->code() == ErrorCode::kProtocol);
    CHECK(rank.failure.cause()->culprit() == 1);
  }
}

TEST_CASE("a lost peer fails the communicator, but a new group only keeps the loss, and a parent's cause goes first") {
  Receiver rank, group, child;
  rank.events.OnPeerLost(1, Lost(1));
  CHECK(rank.failure.cause()->culprit() == 1);
  CHECK(rank.peers.Lost() == std::vector<Rank>{1});

  group.is_new_group = true;
  group.events.OnPeerLost(1, Lost(1));
  CHECK_FALSE(group.failure.has_failed());
  REQUIRE(group.peers.early_loss() != nullptr);
  CHECK(group.wakes == 1);
  group.events.OnPeerLost(3, Lost(3));
  CHECK(group.peers.early_loss()->culprit() == 1);
  CHECK(group.wakes == 1);

  child.parent_has_failed = true;
  child.events.OnPeerLost(1, Lost(1));
  CHECK(child.peers.Lost().empty());
  CHECK(child.peers.early_loss() == nullptr);
}

TEST_CASE("a peer that ended before it was connected has left if its goodbye was kept, and is lost otherwise") {
  Receiver rank;
  rank.kept->goodbyes[3] = Encode(Goodbye{{.sequence = 7}});
  rank.events.OnPeerEndedBefore(3, Lost(3));
  CHECK(rank.wakes == 1);
  CHECK(rank.kept->asked.empty());  // the goodbye is fetched only by AskForKeptGoodbyes, below
  CHECK(rank.events.AskForKeptGoodbyes());
  CHECK(rank.peers.ViewOf(3).goodbye->last.sequence == 7);
  CHECK_FALSE(rank.failure.has_failed());
  CHECK_FALSE(rank.events.AskForKeptGoodbyes());

  rank.events.OnPeerEndedBefore(1, Lost(1));
  CHECK(rank.events.AskForKeptGoodbyes());
  CHECK(rank.failure.cause()->message() == "its connection ended. It has left no goodbye in the map");
}

TEST_CASE("after one question without an answer no other is asked") {
  Receiver rank;
  rank.kept->fails = true;
  for (const Rank peer : {1, 3}) rank.events.OnPeerEndedBefore(peer, Lost(peer));
  CHECK(rank.events.AskForKeptGoodbyes());
  CHECK(rank.kept->asked == std::vector<Rank>{1});
  CHECK(rank.failure.cause()->message() ==
        "its connection ended. Whether it has left a goodbye in the map is not known: no answer");
  CHECK(rank.peers.Lost() == std::vector<Rank>{1, 3});
}

}  // namespace peer_events_test
}  // namespace rondo
