// The state that a communicator keeps for its peers, and which peers still need a message from it.
#include "collectives/communicator/peers.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

namespace rondo {
namespace peers_test {

const std::vector<Rank> kAll = {0, 1, 3};

TEST_CASE("what is sent once goes to no peer twice, and again to those that it did not reach") {
  Peers peers(2, 4);
  std::vector<Rank> tried;
  const auto send = [&](bool Peer::*sent, std::optional<Rank> out_of_reach) {
    tried.clear();
    return peers.SendOnce(sent, kAll, [&](Rank peer) {
      tried.push_back(peer);
      return peer != out_of_reach;
    });
  };
  CHECK(send(&Peer::goodbye_sent, 1));
  CHECK(tried == kAll);
  CHECK_FALSE(send(&Peer::goodbye_sent, 1));
  CHECK(tried == std::vector<Rank>{1});
  CHECK(send(&Peer::goodbye_sent, std::nullopt));
  CHECK_FALSE(send(&Peer::goodbye_sent, std::nullopt));
  CHECK(tried.empty());
  CHECK(send(&Peer::is_notified, std::nullopt));
  CHECK(tried == kAll);
}

TEST_CASE("goodbyes are due from connected peers, and from those that got one although they are connected no more") {
  Peers peers(2, 4);
  CHECK(peers.WithoutGoodbye({3, 0}) == std::vector<Rank>{0, 3});
  peers.SendOnce(&Peer::goodbye_sent, kAll, [](Rank peer) { return peer == 1; });
  CHECK(peers.WithoutGoodbye({3}) == std::vector<Rank>{1, 3});
  CHECK(peers.WithoutGoodbye({1, 3}) == std::vector<Rank>{1, 3});
  peers.OnGoodbye(3, {});
  CHECK(peers.WithoutGoodbye({3}) == std::vector<Rank>{1});
  std::vector<Rank> departed;
  peers.ForEachDeparted([&](Rank peer) { departed.push_back(peer); });
  CHECK(departed == std::vector<Rank>{3});
}

TEST_CASE("a peer may look for this rank later unless a goodbye has gone to it or come from it") {
  Peers peers(2, 4);
  CHECK(peers.HasUnreached());
  peers.SendOnce(&Peer::goodbye_sent, kAll, [](Rank peer) { return peer == 0; });
  peers.OnGoodbye(1, {});
  CHECK(peers.HasUnreached());
  peers.OnGoodbye(3, {});
  CHECK_FALSE(peers.HasUnreached());
}

TEST_CASE("peers that had ended before they were connected are taken once, with their errors") {
  Peers peers(2, 4);
  CHECK_FALSE(peers.has_ended_before());
  peers.OnEndedBefore(3, Error(ErrorCode::kPeerLost, "three"));
  peers.OnEndedBefore(0, Error(ErrorCode::kPeerLost, "zero"));
  CHECK(peers.has_ended_before());
  const auto taken = peers.TakeEndedBefore();
  REQUIRE(taken.size() == 2);
  CHECK((taken[0].first == 3 && taken[0].second.message() == "three"));
  CHECK((taken[1].first == 0 && taken[1].second.message() == "zero"));
  CHECK_FALSE(peers.has_ended_before());
  CHECK(peers.TakeEndedBefore().empty());
}

TEST_CASE("a peer is lost if it ends before it has failed; one that has failed may end") {
  Peers peers(2, 4);
  peers.OnFailureNotice(0);
  for (const Rank peer : {3, 0, 1}) peers.OnLost(peer);
  CHECK(peers.Lost() == std::vector<Rank>{1, 3});
}

TEST_CASE("a peer is notified of a failure unless it was before, has failed itself, is lost or has left") {
  Peers peers(0, 5);
  CHECK(peers.HasUnnotified());
  peers.OnNotified(1);
  peers.OnFailureNotice(2);
  peers.OnLost(3);
  CHECK(peers.HasUnnotified());
  peers.OnGoodbye(4, {});
  CHECK_FALSE(peers.HasUnnotified());
  CHECK_FALSE(Peers(0, 1).HasUnnotified());
}

TEST_CASE("the first early loss is kept, where it is") {
  Peers peers(0, 3);
  CHECK(peers.early_loss() == nullptr);
  CHECK(peers.KeepEarlyLoss(Error(ErrorCode::kPeerLost, "rank 1 died")));
  const Error* const kept = peers.early_loss();
  REQUIRE(kept != nullptr);
  CHECK_FALSE(peers.KeepEarlyLoss(Error(ErrorCode::kPeerLost, "rank 2 died")));
  CHECK(peers.early_loss() == kept);
  CHECK(kept->message() == "rank 1 died");
}

TEST_CASE("the view of a peer is what it sent last, and the first error that is found of a peer is the answer") {
  const TimePoint start = ManualClock().Now();
  Peers peers(0, 3);
  peers.OnReceived(2, start);
  peers.OnReport(2, {{.sequence = 4}});
  peers.OnReport(2, {{.sequence = 5}});
  const PeerView view = peers.ViewOf(2);
  CHECK(view.last_received_at == start);
  REQUIRE(view.report);
  CHECK(view.report->current.sequence == 5);
  CHECK_FALSE(view.goodbye);
  std::vector<Rank> asked;
  const auto found = peers.FirstError([&](Rank peer, const PeerView& seen) -> std::optional<Error> {
    asked.push_back(peer);
    if (peer == 0 || seen.report) return std::nullopt;
    return Error(ErrorCode::kInternal, "no report");
  });
  REQUIRE(found);
  CHECK(asked == std::vector<Rank>{0, 1});
}

}  // namespace peers_test
}  // namespace rondo
