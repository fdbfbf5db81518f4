// Which rank is named as the culprit, after how long, and by which rank. Compares Suspicion with the tables of
// docs/FAULTS.md and the rules of docs/DESIGN.md ("Errors", "Control connections", "Deadlines"), on a clock that the
// test moves.
#include "collectives/communicator/suspicion.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace rondo {
namespace suspicion_test {

using std::chrono::milliseconds;

constexpr Duration kTick = milliseconds(10);
constexpr Duration kTimeout = milliseconds(2000);
const GracePeriods kGraces;

OperationDescriptor AllReduce(Sequence sequence, std::uint64_t count = 1000) {
  return {.sequence = sequence,
          .count = count,
          .collective = Collective::kAllReduce,
          .type = DataType::kFloat32,
          .algorithm = Algorithm::kRing};
}

constexpr Sequence kSequence = 7;

// ---- one rank that is blocked on two peers, each of which has some condition ----

enum class Condition {
  kBlocked,           // the peer sends progress reports and no bytes
  kDead,              // the peer's control connection ends without a goodbye
  kStopped,           // the peer is connected, but silent from now on
  kSlow,              // the peer's bytes arrive, but too slowly; it is not blocked, and sends no reports
  kCutFromIt,         // nothing that the peer sends arrives
  kCutToIt,           // nothing that this rank sends reaches the peer, so the peer is blocked, and its reports arrive
  kLaneFailed,        // the lane failed, but the peer lives
  kLeft,              // the peer sent a goodbye before the operation
  kInOtherOperation,  // the peer's progress report names a different operation with the same sequence number
  kNeverConnected,
};
constexpr std::array kConditions = {Condition::kBlocked,       Condition::kDead,      Condition::kStopped,
                                    Condition::kSlow,          Condition::kCutFromIt, Condition::kCutToIt,
                                    Condition::kLaneFailed,    Condition::kLeft,      Condition::kInOtherOperation,
                                    Condition::kNeverConnected};

const char* NameOf(Condition condition) {
  switch (condition) {
    case Condition::kBlocked: return "blocked";
    case Condition::kDead: return "dead";
    case Condition::kStopped: return "stopped";
    case Condition::kSlow: return "slow";
    case Condition::kCutFromIt: return "cut from it";
    case Condition::kCutToIt: return "cut to it";
    case Condition::kLaneFailed: return "its lane failed";
    case Condition::kLeft: return "left";
    case Condition::kInOtherOperation: return "in another operation";
    case Condition::kNeverConnected: return "never connected";
  }
  return "?";
}

struct Outcome {
  ErrorCode code = ErrorCode::kInternal;
  Rank culprit = kNoRank;
  Duration after{};  // time since the operation began
  bool operator==(const Outcome&) const = default;
};

std::string InWords(const std::optional<Outcome>& outcome) {
  if (!outcome) return "nothing";
  return fmt::format("{} of rank {} after {} ms", Name(outcome->code), outcome->culprit,
                     std::chrono::duration_cast<milliseconds>(outcome->after).count());
}

// A peer on which the observer is blocked. Its condition begins when the operation has run for the time `after`.
struct SeenPeer {
  Rank rank = kNoRank;
  Condition condition = Condition::kBlocked;
  Duration after{};

  bool has_begun(Duration time) const { return time >= after; }
  bool connects() const { return condition != Condition::kNeverConnected; }
  bool reports() const {
    return condition == Condition::kBlocked || condition == Condition::kCutToIt ||
           condition == Condition::kLaneFailed || condition == Condition::kInOtherOperation;
  }
};

// At every tick, calls the functions of Suspicion in the order in which a communicator calls them. One rank observes
// the other ranks.
class Observer {
 public:
  Observer(Rank self, int world_size, std::vector<SeenPeer> peers)
      : suspicion_(self, world_size), self_(self), peers_(std::move(peers)), views_(peers_.size()) {
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].connects()) views_[i].last_received_at = clock_.Now();  // the peer has just connected
  }

  std::optional<Outcome> Run(Duration until) {
    const TimePoint began = clock_.Now();
    for (; clock_.Now() - began <= until; clock_.Advance(kTick)) {
      const Duration time = clock_.Now() - began;
      if (const auto error = Tick(time, began)) return Outcome{error->code(), error->culprit(), time};
    }
    return std::nullopt;
  }

 private:
  std::optional<Error> Tick(Duration time, TimePoint began) {
    const TimePoint now = clock_.Now();
    bool moved = false;
    std::optional<LaneFailure> failed;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const SeenPeer& peer = peers_[i];
      // Until a peer's condition begins, it is blocked like all others.
      const bool reports = peer.has_begun(time) ? peer.reports() : peer.connects();
      if (reports && time % kGraces.heartbeat_interval == Duration::zero()) {
        const bool strays = peer.has_begun(time) && peer.condition == Condition::kInOtherOperation;
        views_[i].report = ProgressReport{AllReduce(kSequence, strays ? 999 : 1000)};
        views_[i].last_received_at = now;
      }
      if (!peer.has_begun(time)) continue;
      if (peer.condition == Condition::kLeft && !views_[i].goodbye) {
        views_[i].goodbye = Goodbye{AllReduce(kSequence - 1)};
        views_[i].last_received_at = now;
      }
      if (peer.condition == Condition::kDead)
        return Suspicion::AttributeLoss(Error(ErrorCode::kPeerLost, "its connection ended"), peer.rank, self_);
      moved |= peer.condition == Condition::kSlow && time % milliseconds(50) == Duration::zero();
      if (peer.condition == Condition::kLaneFailed && !failed) failed = LaneFailure{peer.rank, &reset_};
    }
    const OperationDescriptor own = AllReduce(kSequence);
    for (std::size_t i = 0; i < peers_.size(); ++i)
      if (auto error = suspicion_.JudgePeer(peers_[i].rank, views_[i], /*is_awaited=*/true, {.descriptor = own}))
        return error;
    if (failed) {
      auto verdict = suspicion_.JudgeLaneFailure(*failed, now);
      if (verdict.error) return verdict.error;
      CHECK(verdict.wait_until > now);
    }
    if (moved)
      suspicion_.OnMoved();
    else
      suspicion_.OnBlocked(now);
    const TimePoint deadline = began + kTimeout;
    const auto late =
        suspicion_.FindLate({.first = kSequence, .last = kSequence, .waited = kSequence}, now,
                            [&](Sequence sequence) { return suspicion_.ReportTime(sequence, deadline, false); });
    if (!late) return std::nullopt;
    std::vector<BlockedOn> blocked;
    for (std::size_t i = 0; i < peers_.size(); ++i)
      blocked.push_back({.step = {.peer = peers_[i].rank, .step = static_cast<std::uint32_t>(i)},
                         .last_received_at = views_[i].last_received_at,
                         .is_connected = peers_[i].connects(),
                         .path = "a path"});
    auto verdict =
        suspicion_.JudgeLate({.descriptor = own, .deadline = deadline, .timeout = kTimeout}, true, blocked, now);
    if (!verdict.error) CHECK(verdict.wait_until == deadline + kGraces.timeout_report_delay);
    return verdict.error;
  }

  ManualClock clock_;
  Suspicion suspicion_;
  const Rank self_;
  const std::vector<SeenPeer> peers_;
  std::vector<PeerView> views_;
  const Error reset_ = Error(ErrorCode::kConnectionReset, "the lane broke");
};

// The outcome that the contract gives for a condition that is an error by itself. nullopt: only the deadline ends the
// operation.
std::optional<Outcome> AtOnce(const SeenPeer& peer, Rank self) {
  switch (peer.condition) {
    case Condition::kDead: return Outcome{ErrorCode::kPeerLost, peer.rank, peer.after};
    case Condition::kLeft: return Outcome{ErrorCode::kClosed, peer.rank, peer.after};
    // detected when the peer's next progress report arrives; reports come every 100 ms
    case Condition::kInOtherOperation: {
      const auto reports = (peer.after + milliseconds(99)) / milliseconds(100);
      return Outcome{ErrorCode::kMismatch, peer.rank, reports * milliseconds(100)};
    }
    // the cause has 300 ms to arrive; of the lane's two ranks, the higher one reports first
    case Condition::kLaneFailed:
      return Outcome{ErrorCode::kConnectionReset, peer.rank,
                     peer.after + milliseconds(300) + (peer.rank > self ? milliseconds(600) : milliseconds(0))};
    default: return std::nullopt;
  }
}

bool IsSilent(Condition condition) {
  return condition == Condition::kStopped || condition == Condition::kCutFromIt ||
         condition == Condition::kNeverConnected;
}

// The outcome according to the contract. If some conditions are errors by themselves, the earliest of these errors is
// the outcome. Otherwise the error comes at the deadline, or later if all peers are blocked themselves. It names the
// silent peer, or the first peer if none is more silent than the others.
Outcome Expected(const std::vector<SeenPeer>& peers, Rank self) {
  std::optional<Outcome> first;
  for (const SeenPeer& peer : peers) {
    const auto at_once = AtOnce(peer, self);
    if (at_once && (!first || at_once->after < first->after)) first = at_once;
  }
  if (first && first->after <= kTimeout) return *first;
  const auto any = [&](auto&& holds) { return std::any_of(peers.begin(), peers.end(), holds); };
  const bool all_report = !any([](const SeenPeer& peer) { return !peer.reports(); });
  const bool bytes_arrive = any([](const SeenPeer& peer) { return peer.condition == Condition::kSlow; });
  Outcome late{ErrorCode::kTimeout, peers.front().rank, kTimeout + (all_report ? milliseconds(300) : milliseconds(0))};
  if (bytes_arrive) return late;  // a rank counts as silent only while nothing moves
  const auto silent =
      std::find_if(peers.begin(), peers.end(), [](const auto& peer) { return IsSilent(peer.condition); });
  if (silent != peers.end()) late.culprit = silent->rank;
  return late;
}

TEST_CASE("of every two conditions of peers the contract says which is named, and when") {
  int pairs = 0;
  for (const Rank self : {0, 1, 2})
    for (const Condition one : kConditions)
      for (const Condition other : kConditions) {
        // The second condition begins 50 ms after the first. Because `self` and the conditions vary, each pair occurs
        // in both orders.
        std::vector<SeenPeer> peers = {{.rank = self == 0 ? 1 : 0, .condition = one},
                                       {.rank = self == 2 ? 1 : 2, .condition = other, .after = milliseconds(50)}};
        const Outcome expected = Expected(peers, self);
        const auto seen = Observer(self, 3, peers).Run(2 * kTimeout);
        CAPTURE(self);
        CAPTURE(NameOf(one));
        CAPTURE(NameOf(other));
        CAPTURE(InWords(expected));
        CAPTURE(InWords(seen));
        CHECK(seen == expected);
        ++pairs;
      }
  CHECK(pairs == 300);
}

// Checks some pairs of conditions against literal numbers, so that an error in Expected above cannot hide.
TEST_CASE("what rank 1 reports of rank 0 and rank 2, in milliseconds") {
  struct Row {
    Condition zero;  // the condition of rank 0, from the start of the operation
    Condition two;   // the condition of rank 2, from 50 ms after the start
    ErrorCode code;
    Rank culprit;
    int after_ms;
  };
  const Row rows[] = {
      {Condition::kBlocked, Condition::kBlocked, ErrorCode::kTimeout, 0, 2300},
      {Condition::kBlocked, Condition::kStopped, ErrorCode::kTimeout, 2, 2000},
      {Condition::kStopped, Condition::kBlocked, ErrorCode::kTimeout, 0, 2000},
      {Condition::kBlocked, Condition::kDead, ErrorCode::kPeerLost, 2, 50},
      {Condition::kStopped, Condition::kDead, ErrorCode::kPeerLost, 2, 50},
      {Condition::kBlocked, Condition::kLeft, ErrorCode::kClosed, 2, 50},
      {Condition::kBlocked, Condition::kInOtherOperation, ErrorCode::kMismatch, 2, 100},
      {Condition::kLaneFailed, Condition::kBlocked, ErrorCode::kConnectionReset, 0, 300},
      {Condition::kBlocked, Condition::kLaneFailed, ErrorCode::kConnectionReset, 2, 950},
      {Condition::kLaneFailed, Condition::kDead, ErrorCode::kPeerLost, 2, 50},
      {Condition::kLaneFailed, Condition::kLaneFailed, ErrorCode::kConnectionReset, 0, 300},
      {Condition::kCutToIt, Condition::kBlocked, ErrorCode::kTimeout, 0, 2300},
      {Condition::kCutToIt, Condition::kCutFromIt, ErrorCode::kTimeout, 2, 2000},
      {Condition::kBlocked, Condition::kSlow, ErrorCode::kTimeout, 0, 2000},
      {Condition::kSlow, Condition::kStopped, ErrorCode::kTimeout, 0, 2000},
      {Condition::kBlocked, Condition::kNeverConnected, ErrorCode::kTimeout, 2, 2000},
      {Condition::kNeverConnected, Condition::kStopped, ErrorCode::kTimeout, 0, 2000},
  };
  for (const Row& row : rows) {
    CAPTURE(NameOf(row.zero));
    CAPTURE(NameOf(row.two));
    const auto seen =
        Observer(1, 3,
                 {{.rank = 0, .condition = row.zero}, {.rank = 2, .condition = row.two, .after = milliseconds(50)}})
            .Run(2 * kTimeout);
    CAPTURE(InWords(seen));
    CHECK(seen == Outcome{row.code, row.culprit, milliseconds(row.after_ms)});
  }
}

TEST_CASE("of two silent peers the one that has been silent for longer is named, if by more than 300 ms") {
  const auto named = [](Duration later) {
    return Observer(0, 3,
                    {{.rank = 1, .condition = Condition::kStopped, .after = milliseconds(500) + later},
                     {.rank = 2, .condition = Condition::kStopped, .after = milliseconds(500)}})
        .Run(2 * kTimeout);
  };
  CHECK(named(milliseconds(300)) == Outcome{ErrorCode::kTimeout, 1, kTimeout});
  CHECK(named(milliseconds(400)) == Outcome{ErrorCode::kTimeout, 2, kTimeout});
}

TEST_CASE("of two ranks neither waits for the other to report a timeout") {
  for (const Condition condition : {Condition::kBlocked, Condition::kStopped, Condition::kCutToIt,
                                    Condition::kCutFromIt, Condition::kSlow, Condition::kNeverConnected}) {
    CAPTURE(NameOf(condition));
    CHECK(Observer(0, 2, {{.rank = 1, .condition = condition}}).Run(2 * kTimeout) ==
          Outcome{ErrorCode::kTimeout, 1, kTimeout});
  }
}

// ---- ranks in a ring that notify each other: which report is the first ----

// Rank r waits for rank r - 1.
struct RankInRing {
  RankInRing(Rank self, int world_size) : suspicion(self, world_size) {}
  Suspicion suspicion;
  PeerView view{};           // what this rank has received from the rank for which it waits
  bool runs = true;          // false: stopped
  bool peer_reaches = true;  // whether messages arrive from the rank that this rank waits for
  Duration late_by{};        // this rank's call and deadline are this much later than those of the other ranks
};

struct Report {
  Rank reporter = kNoRank;
  Outcome outcome{};
  bool operator==(const Report&) const = default;
};

class Ring {
 public:
  explicit Ring(int world_size) {
    for (Rank rank = 0; rank < world_size; ++rank) ranks_.emplace_back(rank, world_size);
  }
  RankInRing& operator[](Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank Before(Rank rank) const { return rank == 0 ? static_cast<Rank>(ranks_.size()) - 1 : rank - 1; }

  // Returns the first report, which all other ranks adopt. If several ranks report at the same tick, it returns all of
  // their reports.
  std::vector<Report> Run() {
    const TimePoint began = clock_.Now();
    std::vector<Report> reports;
    for (; reports.empty(); clock_.Advance(kTick)) {
      const Duration time = clock_.Now() - began;
      REQUIRE(time < 3 * kTimeout);
      for (Rank rank = 0; rank < static_cast<Rank>(ranks_.size()); ++rank)
        if (const auto error = Tick(rank, time, began))
          reports.push_back({rank, {error->code(), error->culprit(), time}});
    }
    return reports;
  }

 private:
  std::optional<Error> Tick(Rank self, Duration time, TimePoint began) {
    RankInRing& rank = (*this)[self];
    const TimePoint now = clock_.Now();
    if (!rank.runs) return std::nullopt;
    if ((*this)[Before(self)].runs && rank.peer_reaches && time % kGraces.heartbeat_interval == Duration::zero())
      rank.view = {.report = ProgressReport{AllReduce(kSequence)}, .last_received_at = now};
    rank.suspicion.OnBlocked(now);
    const TimePoint deadline = began + kTimeout + rank.late_by;
    const auto late = rank.suspicion.FindLate({.first = kSequence, .last = kSequence}, now, [&](Sequence sequence) {
      return rank.suspicion.ReportTime(sequence, deadline, false);
    });
    if (!late) return std::nullopt;
    const std::vector<BlockedOn> blocked = {
        {.step = {.peer = Before(self)}, .last_received_at = rank.view.last_received_at}};
    const OperationDescriptor own = AllReduce(kSequence);
    return rank.suspicion.JudgeLate({.descriptor = own, .deadline = deadline, .timeout = kTimeout}, true, blocked, now)
        .error;
  }

  ManualClock clock_;
  std::vector<RankInRing> ranks_;
};

TEST_CASE("of a ring with a stopped rank the rank that waits for it reports first, and names it") {
  for (Rank stopped = 0; stopped < 4; ++stopped) {
    Ring ring(4);
    ring[stopped].runs = false;
    const Rank reporter = (stopped + 1) % 4;
    CHECK(ring.Run() == std::vector<Report>{{reporter, {ErrorCode::kTimeout, stopped, kTimeout}}});
  }
}

TEST_CASE("its report comes first although its deadline is up to 300 ms behind those of the others") {
  for (const auto& [late_by, reporter, culprit, after] : {std::tuple{milliseconds(290), 2, 1, milliseconds(2290)},
                                                          std::tuple{milliseconds(310), 0, 3, milliseconds(2300)}}) {
    Ring ring(4);
    ring[1].runs = false;
    ring[2].late_by = late_by;
    ring[3].late_by = milliseconds(20);
    CHECK(ring.Run() == std::vector<Report>{{reporter, {ErrorCode::kTimeout, culprit, after}}});
  }
}

TEST_CASE("where bytes are lost and all ranks live and report, each names the rank that it waits for") {
  Ring ring(3);  // a known limit (docs/FAULTS.md): no rank can detect where the bytes were lost
  const Duration after = kTimeout + milliseconds(300);
  CHECK(ring.Run() == std::vector<Report>{{0, {ErrorCode::kTimeout, 2, after}},
                                          {1, {ErrorCode::kTimeout, 0, after}},
                                          {2, {ErrorCode::kTimeout, 1, after}}});
}

TEST_CASE("where nothing arrives from a rank that lives, the rank behind the cut reports first") {
  Ring ring(3);
  ring[2].peer_reaches = false;
  CHECK(ring.Run() == std::vector<Report>{{2, {ErrorCode::kTimeout, 1, kTimeout}}});
}

TEST_CASE("of the two ranks of a failed lane the higher one reports after 300 ms, the lower one would after 900 ms") {
  const Error reset(ErrorCode::kConnectionReset, "the lane broke");
  ManualClock clock;
  Suspicion lower(1, 4), higher(2, 4);
  const TimePoint failed_at = clock.Now();
  std::optional<Duration> of_lower, of_higher;
  for (; !of_lower || !of_higher; clock.Advance(kTick)) {
    const TimePoint now = clock.Now();
    if (const auto verdict = lower.JudgeLaneFailure({2, &reset}, now); verdict.error && !of_lower) {
      of_lower = now - failed_at;
      CHECK(verdict.error->culprit() == 2);
    } else if (!of_lower) {
      CHECK(verdict.wait_until == failed_at + milliseconds(900));
    }
    if (const auto verdict = higher.JudgeLaneFailure({1, &reset}, now); verdict.error && !of_higher) {
      of_higher = now - failed_at;
      CHECK(verdict.error->culprit() == 1);
    } else if (!of_higher) {
      CHECK(verdict.wait_until == failed_at + milliseconds(300));
    }
  }
  CHECK(of_lower == milliseconds(900));
  CHECK(of_higher == milliseconds(300));
}

// ---- lanes and connections ----

TEST_CASE("the grace period of a failed lane begins again with another peer and with a completed operation") {
  const Error reset(ErrorCode::kConnectionReset, "the lane broke");
  const TimePoint start = ManualClock().Now();
  Suspicion suspicion(3, 4);
  CHECK_FALSE(suspicion.JudgeLaneFailure({1, &reset}, start).error);
  CHECK_FALSE(suspicion.JudgeLaneFailure({2, &reset}, start + milliseconds(200)).error);
  CHECK_FALSE(suspicion.JudgeLaneFailure({2, &reset}, start + milliseconds(400)).error);
  CHECK(suspicion.JudgeLaneFailure({2, &reset}, start + milliseconds(500)).error);
  suspicion.OnCompleted();
  CHECK_FALSE(suspicion.JudgeLaneFailure({2, &reset}, start + milliseconds(600)).error);
  CHECK(suspicion.JudgeLaneFailure({2, &reset}, start + milliseconds(900)).error);
}

TEST_CASE("a failed lane is its peer's fault, unless the system refused something here or the lane knows better") {
  const TimePoint start = ManualClock().Now();
  const auto error_of = [&](const Error* error) {
    Suspicion suspicion(3, 4);
    CHECK_FALSE(suspicion.JudgeLaneFailure({1, error}, start).error);
    return *suspicion.JudgeLaneFailure({1, error}, start + milliseconds(300)).error;
  };
  const Error reset = Error(ErrorCode::kConnectionReset, "broke").With([](ErrorDetails& d) { d.host = "host b"; });
  CHECK(error_of(&reset).culprit() == 1);
  CHECK(error_of(&reset).details().host == "host b");
  const Error refused = Error(ErrorCode::kResource, "no descriptor").With([](ErrorDetails& d) { d.host = "host b"; });
  CHECK(error_of(&refused).culprit() == 3);
  CHECK(error_of(&refused).details().host.empty());
  const Error own = reset.With([](ErrorDetails& d) { d.culprit = 3; });
  CHECK(error_of(&own).culprit() == 3);
  const Error ended = error_of(nullptr);
  CHECK(ended.code() == ErrorCode::kConnectionReset);
  CHECK(ended.culprit() == 1);
  CHECK(ended.message() == "rank 1 ended its lane to rank 3 while bytes are still expected");
}

TEST_CASE("a lost connection is the peer's fault, unless the system refused something here") {
  CHECK(Suspicion::AttributeLoss(Error(ErrorCode::kPeerLost, "died"), 2, 0).culprit() == 2);
  CHECK(Suspicion::AttributeLoss(Error(ErrorCode::kUnreachable, "no answer"), 2, 0).culprit() == 2);
  CHECK(Suspicion::AttributeLoss(Error(ErrorCode::kResource, "no descriptor"), 2, 0).culprit() == 0);
}

// ---- mismatches ----

TEST_CASE("a peer that has left is missed by operations that wait for it, or need all ranks, and by no others") {
  const Suspicion suspicion(0, 3);
  const OperationDescriptor own = AllReduce(kSequence);
  const PeerView left{.goodbye = Goodbye{AllReduce(kSequence - 1)}};
  const PeerView left_after{.goodbye = Goodbye{own}};
  const auto code = [&](const PeerView& view, bool is_awaited, const OwnOperation& operation) {
    const auto error = suspicion.JudgePeer(2, view, is_awaited, operation);
    if (error) CHECK(error->culprit() == 2);
    return error ? std::optional(error->code()) : std::nullopt;
  };
  CHECK(code(left, true, {.descriptor = own}) == ErrorCode::kClosed);
  CHECK(code(left, false, {.descriptor = own, .needs_all = true}) == ErrorCode::kClosed);
  CHECK_FALSE(code(left, false, {.descriptor = own}));
  CHECK_FALSE(code(left_after, true, {.descriptor = own, .needs_all = true}));
  const PeerView refused{.goodbye = Goodbye{AllReduce(kSequence - 1), "all_reduce: input is null"}};
  CHECK(code(refused, true, {.descriptor = own}) == ErrorCode::kMismatch);
}

TEST_CASE("a peer in another operation is found by its report and by its goodbye, but not while ranks join") {
  const Suspicion suspicion(0, 3);
  const OperationDescriptor own = AllReduce(kSequence);
  const PeerView strays[] = {{.report = ProgressReport{AllReduce(kSequence, 999)}},
                             {.goodbye = Goodbye{AllReduce(kSequence, 999)}}};
  for (const PeerView& other : strays) {
    const auto error = suspicion.JudgePeer(1, other, false, {.descriptor = own});
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kMismatch);
    CHECK(error->culprit() == 1);
    CHECK(error->message().find("rank 0 is in operation #7") != std::string::npos);
    CHECK(error->message().find("rank 1 in operation #7") != std::string::npos);
    CHECK_FALSE(suspicion.JudgePeer(1, other, false, {.descriptor = own, .is_joining = true}));
  }
  // A rank may be some operations ahead of another rank.
  const PeerView ahead{.report = ProgressReport{AllReduce(kSequence + 1, 999)}};
  CHECK_FALSE(suspicion.JudgePeer(1, ahead, true, {.descriptor = own, .needs_all = true}));
}

TEST_CASE("in Close last operations are compared, and a peer in a later operation is named as waiting") {
  const Suspicion suspicion(0, 3);
  const OperationDescriptor last = AllReduce(kSequence);
  CHECK_FALSE(suspicion.JudgeGoodbye(1, {}, last));
  CHECK_FALSE(suspicion.JudgeGoodbye(1, {.goodbye = Goodbye{last}}, last));
  const auto mismatch = suspicion.JudgeGoodbye(1, {.goodbye = Goodbye{AllReduce(kSequence, 999)}}, last);
  REQUIRE(mismatch);
  CHECK(mismatch->code() == ErrorCode::kMismatch);
  CHECK(mismatch->culprit() == 1);

  CHECK_FALSE(suspicion.JudgeReportInClose(1, {}, last, ""));
  CHECK_FALSE(suspicion.JudgeReportInClose(1, {.report = ProgressReport{last}}, last, ""));
  const PeerView later{.report = ProgressReport{AllReduce(kSequence + 1)}};
  const auto closed = suspicion.JudgeReportInClose(1, later, last, "");
  REQUIRE(closed);
  CHECK(closed->code() == ErrorCode::kClosed);
  CHECK(closed->culprit() == 0);
  CHECK(closed->message().find("rank 0 closed after #7") == 0);
  CHECK(closed->message().find("rank 1 waits for it in #8") != std::string::npos);
}

// ---- deadlines ----

TEST_CASE("while ranks join, rank 0 reports at the deadline and the others 200 ms later") {
  const TimePoint deadline = ManualClock().Now() + kTimeout;
  for (Rank rank = 0; rank < 3; ++rank) {
    const Suspicion suspicion(rank, 3);
    CHECK(suspicion.ReportTime(1, deadline, /*is_joining=*/true) == deadline + milliseconds(rank == 0 ? 0 : 200));
    CHECK(suspicion.ReportTime(1, deadline, /*is_joining=*/false) == deadline);
    CHECK(suspicion.ReportTime(1, TimePoint::max(), /*is_joining=*/true) == TimePoint::max());
  }
  // The deadline is not extended, because the peers are still joining. Only peers that are blocked in a step extend it.
  Suspicion zero(0, 3);
  const OperationDescriptor first = AllReduce(1);
  const std::vector<BlockedOn> joining = {
      {.step = {.peer = 2}, .is_joining = true, .last_received_at = deadline, .path = "connecting"}};
  const auto verdict = zero.JudgeLate({.descriptor = first, .deadline = deadline}, true, joining, deadline);
  REQUIRE(verdict.error);
  CHECK(verdict.error->culprit() == 2);
}

TEST_CASE("a deadline is extended once, and only that of the operation that is the first") {
  const TimePoint deadline = ManualClock().Now() + kTimeout;
  const std::vector<BlockedOn> blocked = {{.step = {.peer = 1}, .last_received_at = deadline}};
  const OperationDescriptor own = AllReduce(kSequence), next = AllReduce(kSequence + 1);
  Suspicion suspicion(0, 3);
  CHECK(suspicion.JudgeLate({.descriptor = next, .deadline = deadline}, false, blocked, deadline).error);
  CHECK_FALSE(suspicion.JudgeLate({.descriptor = own, .deadline = deadline}, true, blocked, deadline).error);
  CHECK(suspicion.ReportTime(kSequence, deadline, false) == deadline + milliseconds(300));
  CHECK(suspicion.ReportTime(kSequence + 1, deadline, false) == deadline);
  CHECK(suspicion.JudgeLate({.descriptor = own, .deadline = deadline}, true, blocked, deadline).error);
}

TEST_CASE("the first operation and the one waited for are late at once, others are found within 100 ms") {
  const TimePoint start = ManualClock().Now();
  const auto late = [](Suspicion& suspicion, Sequence waited, Sequence which, TimePoint now) {
    return suspicion.FindLate({.first = 3, .last = 9, .waited = waited}, now,
                              [&](Sequence sequence) { return sequence == which ? now : TimePoint::max(); });
  };
  Suspicion suspicion(0, 3);
  CHECK_FALSE(late(suspicion, 0, 2, start));  // operation 2 has ended, and all other operations were checked
  CHECK(late(suspicion, 0, 3, start) == 3);
  CHECK(late(suspicion, 6, 6, start) == 6);
  CHECK_FALSE(late(suspicion, 12, 12, start));  // operation 12 was not issued
  CHECK_FALSE(late(suspicion, 0, 6, start + milliseconds(99)));
  CHECK(late(suspicion, 0, 6, start + milliseconds(100)) == 6);
  CHECK_FALSE(late(suspicion, 0, 6, start + milliseconds(199)));
}

TEST_CASE("a blocked rank sends its first progress report after 100 ms, and one every 100 ms while nothing moves") {
  const TimePoint start = ManualClock().Now();
  Suspicion suspicion(0, 3);
  std::vector<int> reports;
  for (int ms = 0; ms <= 600; ms += 10) {
    if (ms == 250) suspicion.OnMoved();
    if (suspicion.OnBlocked(start + milliseconds(ms))) reports.push_back(ms);
  }
  CHECK(reports == std::vector<int>{100, 200, 350, 450, 550});
}

TEST_CASE("a timeout says of every peer how far its step is, and how long it has been silent") {
  const TimePoint start = ManualClock().Now();
  Suspicion suspicion(0, 4);
  suspicion.OnBlocked(start);
  const TimePoint now = start + milliseconds(2000);
  const OperationDescriptor own = AllReduce(17);
  const auto text = [&](const std::vector<BlockedOn>& blocked, const LateOperation& late) {
    return suspicion.TimeoutOf(late, blocked, now).message();
  };
  const LateOperation late{.descriptor = own, .timeout = milliseconds(2000)};
  CHECK(
      text({{.step = {.peer = 3}, .path = "tcp to host d"}}, late) ==
      "#17 all_reduce float32 x 1000 sum by ring did not end within 2.000 s: rank 0 waits for rank 3 (nothing of this "
      "operation arrived; connected and silent for 2.000 s; tcp to host d)");
  CHECK(text({{.step = {.peer = 3, .sending = true}, .is_connected = false, .path = "connecting"}}, late)
            .find("rank 3 (nothing of this operation could be sent; connecting)") != std::string::npos);
  const BlockedStep started{.peer = 1, .step = 2, .started = true, .bytes_done = 1'000'000, .bytes_due = 4'000'000};
  CHECK(
      text({{.step = started, .last_received_at = now - milliseconds(250)}}, late)
          .find("rank 1 (1000000 of 4000000 bytes of step 2 arrived, 0.5 MB/s; connected, last message 0.250 s ago)") !=
      std::string::npos);
  LateOperation on_rails = late;
  on_rails.names_rails = true;
  on_rails.timeout_owner = "Close's ";
  const std::string close = text({{.step = started}}, on_rails);
  CHECK(close.find("did not end within Close's 2.000 s") != std::string::npos);
  CHECK(close.find("bytes of step 2 arrived on rail 0, ") != std::string::npos);
  CHECK(text({{.step = {.peer = 2}, .is_joining = true, .is_connected = false, .path = "connecting"}}, late)
            .find("waits for rank 2 (to set up shared memory; connecting)") != std::string::npos);
  CHECK(text({}, late).find("rank 0 waits for an earlier operation") != std::string::npos);
  LateOperation staged = late;
  staged.local_wait = "copies of GPU 0";
  CHECK(text({}, staged).find("rank 0 waits for copies of GPU 0") != std::string::npos);
  CHECK(suspicion.TimeoutOf(staged, {}, now).culprit() == 0);
  CHECK(suspicion.TimeoutOf(late, {}, now).culprit() == kNoRank);
}

}  // namespace suspicion_test
}  // namespace rondo
