#include "simulation/chaos.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "simulation/frame_flip.h"
#include "simulation/plan.h"
#include "simulation/rank_life.h"
#include "simulation/store_node.h"
#include "transport/tcp/handshake.h"

namespace rondo::simulation {
namespace {

constexpr int kPorts = 2;  // number of ports of a store: one for each of the two rendezvous
constexpr std::uint64_t kMainCommunicator = 1;
// A wait must not fail if its limit exceeds the fault's duration by at least this much.
constexpr Duration kMargin = std::chrono::milliseconds(1500);
constexpr Duration kHealedMost = std::chrono::seconds(200);
constexpr Duration kRebuildsMost = std::chrono::seconds(300);

class Chaos {
 public:
  Chaos(FiberStacks& stacks, const ChaosOptions& options)
      : options_(options),
        random_(options.seed),
        plan_(DrawPlan(options, random_)),
        network_(plan_.sim),
        begin_(network_.clock()->Now()),
        cluster_(network_, stacks, random_.Next()),
        world_{.plan = plan_,
               .negative = options.negative,
               .network = network_,
               .cluster = cluster_,
               .violate = [this](const std::string& text) { Violate(text); },
               .trace = [this](const std::string& text) { Trace(text); }} {
    for (Rank rank = 0; rank < plan_.world_size; ++rank) lives_.push_back(std::make_unique<RankLife>(world_, rank));
  }

  ChaosOutcome Run() {
    outcome_.world_size = plan_.world_size;
    if (options_.trace) {
      Trace(fmt::format("{} ranks, {}{}{}{}", plan_.world_size, plan_.sim.handshakes ? "with handshakes" : "by name",
                        plan_.checksums ? ", checksums" : "", plan_.compare_results ? ", results compared" : "",
                        plan_.rebuild ? fmt::format(", continuing with {} or more ranks", plan_.min_ranks) : ""));
      for (const Step& step : plan_.steps) Trace(fmt::format("planned: {}", Describe(step)));
      for (const Fault& fault : plan_.faults) Trace(fmt::format("planned: {}", Describe(fault)));
    }
    network_.TellFaults([this](TimePoint now, std::string_view text) {
      if (!first_fault_at_) first_fault_at_ = now;
      Trace(std::string(text));
    });
    StoreNode store(network_, cluster_, plan_.store(), plan_.world_size, kPorts);
    Safety(store);
    if (outcome_.violation.empty()) Liveness();
    // Kills all ranks, so that none remains in the middle of a call.
    for (Rank rank = 0; rank < network_.world_size(); ++rank) network_.Kill(rank, Now());
    RONDO_CHECK(cluster_.Run(Now() + kHealedMost) == Cluster::End::kDone, "killed ranks still wait");
    outcome_.stalled_requests = store.stalled();
    outcome_.switches = cluster_.switches();
    lives_.clear();
    return outcome_;
  }

 private:
  TimePoint Now() const { return network_.clock()->Now(); }
  double Ms(Duration duration) const { return std::chrono::duration<double, std::milli>(duration).count(); }
  RankLife& Life(Rank rank) { return *lives_[static_cast<std::size_t>(rank)]; }

  void Trace(const std::string& text) {
    if (options_.trace) options_.trace(fmt::format("{:>12.3f} ms  {}", Ms(Now() - begin_), text));
  }
  void Violate(const std::string& text) {
    Trace("VIOLATION: " + text);
    if (outcome_.violation.empty()) outcome_.violation = text;
  }

  // ---- safety ----

  void Safety(StoreNode& store) {
    for (const Fault& fault : plan_.faults) Arm(fault, store);
    for (Rank rank = 0; rank < plan_.world_size; ++rank)
      cluster_.Spawn(
          rank, [this, rank] { Life(rank).First({.server = plan_.store(), .port = 0}); },
          [this, rank] { Life(rank).Die(); });
    Duration most = plan_.join_timeout + std::chrono::seconds(60);
    for (const Step& step : plan_.steps) most += step.timeout + std::chrono::seconds(10);
    for (const Fault& fault : plan_.faults) most += std::min<Duration>(fault.lasts, std::chrono::minutes(1));
    if (plan_.rebuild) most += kRebuildsMost;
    if (const Cluster::End end = cluster_.Run(Now() + most); end != Cluster::End::kDone)
      for (Rank rank = 0; rank < plan_.world_size; ++rank)
        if (cluster_.Runs(rank) && !network_.killed(rank))
          Violate(fmt::format("rank {} hangs in {}: {} s of virtual time have passed", rank, Life(rank).doing(),
                              std::chrono::duration_cast<std::chrono::seconds>(Now() - begin_).count()));
    for (Rank rank = 0; rank < plan_.world_size; ++rank) {
      Life(rank).LookAtMemory();
      if (network_.killed(rank)) continue;
      survivors_.push_back(rank);
      outcome_.connected += Life(rank).connected();
      outcome_.unharmed += Life(rank).through();
      outcome_.failed += Life(rank).failure().has_value();
      outcome_.went_on += Life(rank).went_on();
      outcome_.stopped += Life(rank).stopped_by().has_value();
      outcome_.corrupt += Life(rank).failure() && Life(rank).failure()->code() == ErrorCode::kCorrupt;
    }
    outcome_.survivors = static_cast<int>(survivors_.size());
    outcome_.counters = network_.counters();
    outcome_.trace_hash = network_.trace_hash();
    outcome_.lone = Lone(store);
    if (outcome_.violation.empty()) Judge(store);
    if (outcome_.violation.empty()) JudgeRebuilds();
  }

  // nullopt: there are several faults, so effects cannot be attributed to one.
  std::optional<LoneFault> Lone(const StoreNode& store) const {
    const std::vector<Fault>& faults = plan_.faults;
    const bool two_kills = faults.size() == 2 && faults[0].kind == Fault::Kind::kKill &&
                           faults[1].kind == Fault::Kind::kKill && faults[0].ranks != faults[1].ranks;
    if (faults.size() > 1 && !two_kills) return std::nullopt;
    LoneFault lone;
    lone.fired = Fired(store);
    lone.kind = faults.empty() ? "delays" : two_kills && lone.fired == 2 ? "two_kills" : KindOf(faults.front());
    TimePoint last_error_at = TimePoint::min();
    for (const Rank rank : survivors_) {
      const RankLife& life = *lives_[static_cast<std::size_t>(rank)];
      lone.unharmed += life.through();
      if (!life.failure()) continue;
      lone.errors.push_back(life.failure()->code());
      const bool slept =
          !faults.empty() && faults.front().kind == Fault::Kind::kPause && rank == faults.front().ranks.front();
      if (!slept)
        last_error_at =
            std::max(last_error_at, life.failed_at());  // a stopped rank gets its error only when it continues
    }
    const TimePoint since = first_fault_at_.value_or(faults.empty() ? begin_ : begin_ + faults.front().at);
    if (last_error_at != TimePoint::min()) lone.last_error_after = std::max(last_error_at - since, Duration::zero());
    return lone;
  }

  std::string_view KindOf(const Fault& fault) const {
    if (fault.kind == Fault::Kind::kPause && fault.lasts < plan_.shortest_timeout()) return "short_pause";
    return Name(fault.kind);
  }

  // How often the plan's only fault (or its two kills) took effect.
  std::uint64_t Fired(const StoreNode& store) const {
    using Kind = Fault::Kind;
    const SimCounters counters = network_.counters();
    if (plan_.faults.empty()) return counters.slices + counters.clogs;
    switch (plan_.faults.front().kind) {
      case Kind::kKill:  // counts killed ranks, not machines, because the store may be on rank 0's machine
        return static_cast<std::uint64_t>(
            std::count_if(plan_.faults.begin(), plan_.faults.end(),
                          [&](const Fault& fault) { return network_.killed(fault.ranks.front()); }));
      case Kind::kPause:
      case Kind::kStorePause: return counters.pauses;
      case Kind::kPartition:
      case Kind::kOneWay: return counters.held_back;
      case Kind::kCutLane:
      case Kind::kCutControl:
      case Kind::kStoreCut: return counters.cuts;
      case Kind::kFlipHeader:
      case Kind::kFlipPayload: return counters.flips;
      case Kind::kStoreKill: return network_.killed(plan_.store()) ? 1 : 0;
      case Kind::kStoreStall: return store.stalled();
      case Kind::kForeignClient: return counters.unknown + counters.refusals;
    }
    return 0;
  }

  // Adds the store's machine if `ranks` contains rank 0 and the store is on rank 0's machine.
  std::vector<Rank> Machines(std::vector<Rank> ranks) const {
    if (plan_.store_beside_rank_0 && std::find(ranks.begin(), ranks.end(), 0) != ranks.end())
      ranks.push_back(plan_.store());
    return ranks;
  }
  std::vector<Rank> Others(const std::vector<Rank>& ranks) const {
    std::vector<Rank> others;
    for (Rank rank = 0; rank <= plan_.store(); ++rank)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) others.push_back(rank);
    return others;
  }

  void Arm(const Fault& fault, StoreNode& store) {
    using Kind = Fault::Kind;
    const TimePoint at = begin_ + fault.at;
    const TimePoint until = at + fault.lasts;
    const Rank first = fault.ranks.front();
    switch (fault.kind) {
      case Kind::kKill:
        for (const Rank rank : Machines(fault.ranks))
          fault.at_event ? network_.KillAtEvent(rank, *fault.at_event) : network_.Kill(rank, at);
        break;
      case Kind::kPause:
        for (const Rank rank : Machines(fault.ranks)) network_.Pause(rank, at, until);
        break;
      case Kind::kPartition:
      case Kind::kOneWay: {
        const std::vector<Rank> inside = Machines(fault.ranks);
        const std::vector<Rank> outside = Others(inside);
        network_.Partition(inside, outside, at, until);
        if (fault.kind == Kind::kPartition) network_.Partition(outside, inside, at, until);
        break;
      }
      case Kind::kCutLane:
        network_.Cut({.from = first, .to = fault.ranks[1], .communicator = kMainCommunicator}, fault.number);
        break;
      case Kind::kCutControl:
        network_.Cut({.from = first, .to = fault.ranks[1], .lane = std::nullopt, .communicator = kMainCommunicator},
                     fault.number);
        break;
      case Kind::kFlipHeader:
      case Kind::kFlipPayload:
        network_.Corrupt({.from = first, .to = fault.ranks[1], .lane = fault.lane, .communicator = kMainCommunicator},
                         FrameFlipper(fault.kind == Kind::kFlipHeader ? FrameFlip::kHeader : FrameFlip::kPayload,
                                      plan_.checksums, fault.number, random_.Next()));
        break;
      case Kind::kStoreKill: network_.Kill(plan_.store(), at); break;
      case Kind::kStorePause: network_.Pause(plan_.store(), at, until); break;
      case Kind::kStoreCut: network_.Cut({.from = first, .to = plan_.store()}, fault.number); break;
      case Kind::kStoreStall:
        network_.At(at, [&store, first, until] { store.Stall(fmt::format("member/{}", first), until); });
        break;
      case Kind::kForeignClient:
        network_.Call(first, Strange(fault), at,
                      [this, first](Bytes) { Trace(fmt::format("rank {} has answered the foreign client", first)); });
        break;
    }
  }

  std::vector<std::byte> Strange(const Fault& fault) {
    tcp::Hello hello{.communicator = kMainCommunicator,
                     .generation = 0,
                     .from = (fault.ranks.front() + 1) % std::max(plan_.world_size, 2),
                     .to = fault.ranks.front(),
                     .job = "chaos",
                     .from_instance = "other process",
                     .to_instance = fmt::format("{}.0", fault.ranks.front())};
    const auto text = [](std::string_view words) {
      return std::vector<std::byte>(AsBytes(words).begin(), AsBytes(words).end());
    };
    switch (fault.number) {
      case 0: return text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      case 1: {
        std::vector<std::byte> noise(random_.Between(1, 200));
        for (std::byte& byte : noise) byte = static_cast<std::byte>(random_.Below(256));
        return noise;
      }
      case 2: hello.generation = 7; return Encode(hello);
      case 3: {
        std::vector<std::byte> cut_short = Encode(hello);
        cut_short.resize(random_.Between(1, cut_short.size() - 1));
        return cut_short;
      }
      default: return Encode(hello);  // the hello of a second process that has a member's rank
    }
  }

  // ---- judging ----

  // The errors and culprits that are explained by the faults that took effect.
  struct Explained {
    std::set<ErrorCode> codes;
    std::set<Rank> culprits;
    std::set<Rank> away;    // ranks that were stopped for too long
    bool any_rank = false;  // true: any rank may be named, because a partition has two sides
    bool harm = false;

    void Add(std::initializer_list<ErrorCode> more, const std::vector<Rank>& by) {
      harm = true;
      codes.insert(more);
      culprits.insert(by.begin(), by.end());
    }
  };

  Explained Explain(const StoreNode& store) {
    using Kind = Fault::Kind;
    using enum ErrorCode;
    Explained explained;
    bool all_met = true;
    TimePoint last_met = begin_;
    for (const Rank rank : survivors_) {
      all_met = all_met && Life(rank).connected();
      if (Life(rank).connected()) last_met = std::max(last_met, Life(rank).connected_at());
    }
    const auto store_harm = [&](bool fired) {
      if (fired) explained.Add({kStoreLost, kStoreTimeout, kRendezvousTimeout, kUnreachable}, {});
    };
    Duration bearable = std::min<Duration>(plan_.shortest_timeout(), std::chrono::seconds(3)) * 8 / 10;
    bearable = std::min(bearable, plan_.sim.silence_timeout) - kMargin;
    const SimCounters counters = network_.counters();
    for (const Fault& fault : plan_.faults) {
      const bool fired = begin_ + fault.at <= Now();
      const bool before_all_had_met = fired && (!all_met || begin_ + fault.at <= last_met);
      const Rank first = fault.ranks.front();
      switch (fault.kind) {
        case Kind::kKill:
          // A store on rank 0's machine is killed an instant before or after rank 0, so rank 0 may fail because of the
          // store.
          store_harm(!all_met && plan_.store_beside_rank_0 && first == 0 && network_.killed(plan_.store()));
          if (!network_.killed(first)) break;
          explained.Add({kPeerLost}, {first});
          if (!all_met) explained.Add({kRendezvousTimeout}, {first});
          break;
        case Kind::kPause:
          if (!fired || fault.lasts < bearable) break;
          explained.Add({kTimeout, kRendezvousTimeout, kUnreachable}, {first});
          explained.away.insert(first);
          store_harm(before_all_had_met);
          break;
        case Kind::kPartition:
        case Kind::kOneWay:
          if (!fired || fault.lasts < bearable) break;
          explained.Add({kTimeout, kRendezvousTimeout, kUnreachable, kPeerLost, kConnectionReset}, {});
          explained.any_rank = true;
          store_harm(before_all_had_met);
          break;
        case Kind::kCutLane:
          if (counters.cuts > 0) explained.Add({kConnectionReset}, fault.ranks);
          break;
        case Kind::kCutControl:
          if (counters.cuts > 0) explained.Add({kPeerLost}, fault.ranks);
          break;
        case Kind::kFlipHeader:
        case Kind::kFlipPayload:
          if (counters.flips == 0) break;
          if (plan_.checksums) {
            explained.Add({kCorrupt}, {first});
          } else if (fault.kind == Kind::kFlipHeader) {
            // The two ends cannot decide which of them caused a mismatch, so both may be named.
            explained.Add({kProtocol, kMismatch}, fault.ranks);
          }
          break;
        case Kind::kStoreKill: store_harm(before_all_had_met); break;
        case Kind::kStorePause: store_harm(before_all_had_met && fault.lasts >= bearable); break;
        case Kind::kStoreCut: store_harm(counters.cuts > 0 && !all_met); break;
        case Kind::kStoreStall: store_harm(store.stalled() > 0 && fault.lasts >= bearable); break;
        case Kind::kForeignClient: break;
      }
    }
    // Ranks whose rendezvous succeeded wait, until their timeout, for a rank whose rendezvous failed.
    for (const Rank rank : survivors_)
      if (Life(rank).failure() && !Life(rank).connected()) explained.Add({kTimeout, kUnreachable}, {rank});
    return explained;
  }

  void Judge(const StoreNode& store) {
    const Explained explained = Explain(store);
    for (const Rank rank : survivors_) {
      const RankLife& life = Life(rank);
      if (life.through()) continue;
      if (!life.failure()) return Violate(fmt::format("rank {} ended in {} without an error", rank, life.doing()));
      const Error& error = *life.failure();
      const auto said = [&](std::string_view what) {
        Violate(fmt::format("rank {} in {}: {}: {}", rank, life.doing(), what, error.ToString()));
      };
      if (!explained.harm) return said("it failed, although no fault did harm");
      const Rank culprit = error.culprit();
      // If the culprit gave up, its own error is judged separately. This rank may have got the culprit's
      // notice, may have waited for the culprit until the timeout (in a group that the culprit never made), or may
      // have found that the culprit has left.
      const bool gave_up = culprit >= 0 && Life(culprit).failure();  // a culprit that gave up may have died later
      if (error.code() == ErrorCode::kPeerAborted && !gave_up) return said("it names a rank that did not give up");
      if (gave_up && (error.code() == ErrorCode::kPeerAborted || error.code() == ErrorCode::kClosed ||
                      error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kUnreachable)) {
        outcome_.named_next += error.code() != ErrorCode::kPeerAborted && explained.culprits.count(culprit) == 0;
        continue;
      }
      // A slow rank may connect to a rank that has already continued in the next generation.
      if (error.code() == ErrorCode::kStale && culprit >= 0 && !Life(culprit).generations().empty()) continue;
      // A rank that was stopped for too long finds that other ranks have failed and closed in the meantime.
      if (explained.away.count(rank) != 0 && culprit >= 0 && Life(culprit).failure() &&
          (error.code() == ErrorCode::kPeerLost || error.code() == ErrorCode::kConnectionReset ||
           error.code() == ErrorCode::kClosed))
        continue;
      if (explained.codes.count(error.code()) == 0) return said("none of the faults that fired explains this error");
      if (explained.any_rank || explained.culprits.count(culprit) != 0) continue;
      const bool waited = error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kRendezvousTimeout ||
                          error.code() == ErrorCode::kUnreachable;
      const bool of_store = error.code() == ErrorCode::kStoreLost || error.code() == ErrorCode::kStoreTimeout;
      if (!waited && !of_store) return said("it names a rank that did nothing wrong");
      // This rank waited for the culprit, and the culprit itself waited for another rank.
      outcome_.named_next += waited && culprit != kNoRank;
    }
  }

  // Checks that no two sets of ranks continue separately: each generation has one roster, and each roster is a subset
  // of the roster before.
  void JudgeRebuilds() {
    std::map<std::uint64_t, std::vector<Rank>> rosters;
    for (Rank rank = 0; rank < plan_.world_size; ++rank)
      for (const RankLife::Generation& generation : Life(rank).generations()) {
        const auto [known, fresh] = rosters.try_emplace(generation.number, generation.members);
        if (!fresh && known->second != generation.members)
          return Violate(fmt::format(
              "generation {} has ranks {} according to rank {}, but ranks {} according to another rank",
              generation.number, fmt::join(generation.members, ", "), rank, fmt::join(known->second, ", ")));
      }
    const std::vector<Rank>* before = nullptr;
    for (const auto& [number, members] : rosters) {
      const auto old = [&](Rank rank) { return std::find(before->begin(), before->end(), rank) != before->end(); };
      if (before != nullptr && !std::all_of(members.begin(), members.end(), old))
        return Violate(fmt::format("generation {} has ranks {}, not all of which were in the previous generation",
                                   number, fmt::join(members, ", ")));
      before = &members;
    }
    for (const Rank rank : survivors_) {
      const auto& why = Life(rank).stopped_by();
      if (!why) continue;
      const auto said = [&](std::string_view what) {
        Violate(fmt::format("rank {}: {}: {}", rank, what, why->ToString()));
      };
      if (why->code() != ErrorCode::kRebuildFailed && why->code() != ErrorCode::kStale)
        return said("a rebuild that stops must give rebuild_failed or stale");
      if (OnlyRanksWereLost()) return said("the store and all remaining ranks were alive, but it did not continue");
    }
  }

  // Whether no fault disturbed the remaining ranks or the store, not even briefly.
  bool OnlyRanksWereLost() const {
    using Kind = Fault::Kind;
    const auto harmless = [&](const Fault& fault) {
      if (fault.kind == Kind::kKill) return !plan_.store_beside_rank_0 || fault.ranks.front() != 0;
      return fault.kind == Kind::kForeignClient;
    };
    return plan_.min_ranks == 1 && std::all_of(plan_.faults.begin(), plan_.faults.end(), harmless);
  }

  // ---- liveness ----

  void Liveness() {
    Trace("all faults have ended");
    network_.Heal();
    SimLink calm;
    for (Rank from = 0; from < network_.world_size(); ++from)
      for (Rank to = 0; to < network_.world_size(); ++to) network_.SetLink(from, to, calm);
    if (survivors_.empty()) return;
    // If the store has died, another one is started elsewhere.
    std::unique_ptr<StoreNode> spare;
    StorePlace place{.server = plan_.store(), .port = 1};
    if (network_.killed(plan_.store())) {
      place.server = plan_.spare_store();
      spare = std::make_unique<StoreNode>(network_, cluster_, place.server, plan_.world_size, kPorts);
    }
    const TimePoint begin = Now();
    for (const Rank rank : survivors_)
      cluster_.Spawn(
          rank, [this, rank, place] { Life(rank).Again(place, survivors_); }, [this, rank] { Life(rank).Die(); });
    const Cluster::End end = cluster_.Run(begin + kHealedMost);
    for (const Rank rank : survivors_) {
      RankLife& life = Life(rank);
      life.LookAtMemory();
      if (life.through()) continue;
      Violate(fmt::format("all faults have ended, but rank {} makes no progress in {}: {}", rank, life.doing(),
                          life.failure() ? life.failure()->ToString() : std::string("it still waits")));
    }
    if (end != Cluster::End::kDone)
      for (const Rank rank : survivors_) network_.Kill(rank, Now());
    (void)cluster_.Run(Now() + kHealedMost);
    lives_.clear();  // the ranks are destroyed before the store, because they may use it
    outcome_.trace_hash = network_.trace_hash();
    outcome_.counters = network_.counters();
    cluster_.Serve(plan_.spare_store(), nullptr);
  }

  const ChaosOptions& options_;
  Random random_;
  const Plan plan_;
  SimNetwork network_;
  const TimePoint begin_;
  Cluster cluster_;
  World world_;
  std::vector<std::unique_ptr<RankLife>> lives_;  // by rank
  std::vector<Rank> survivors_;
  std::optional<TimePoint> first_fault_at_;
  ChaosOutcome outcome_;
};

constexpr std::array<Negative, 5> kNegatives = {Negative::kEofIgnored, Negative::kNoDeadline, Negative::kPayloadFlips,
                                                Negative::kEarlyRelease, Negative::kTwoRosters};

}  // namespace

std::span<const Negative> AllNegatives() { return kNegatives; }

std::string_view Name(Negative negative) {
  switch (negative) {
    case Negative::kNone: return "none";
    case Negative::kEofIgnored: return "eof-ignored";
    case Negative::kNoDeadline: return "no-deadline";
    case Negative::kPayloadFlips: return "payload-flips";
    case Negative::kEarlyRelease: return "early-release";
    case Negative::kTwoRosters: return "two-rosters";
  }
  return "unknown";
}

ChaosOutcome RunChaos(FiberStacks& stacks, const ChaosOptions& options) { return Chaos(stacks, options).Run(); }

std::string ReplayCommand(const ChaosOptions& options) {
  std::string command = fmt::format("rondo chaos --seed {} --trace", options.seed);
  if (options.world_size) command += fmt::format(" --world {}", *options.world_size);
  if (options.negative != Negative::kNone) command += fmt::format(" --negative {}", Name(options.negative));
  return command;
}

}  // namespace rondo::simulation
