#include "simulation/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"

namespace rondo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t kMaxElements = 1500;  // limit for all blocks of a collective together
constexpr std::uint64_t kMaxMessageBytes = 5000;

double Ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

class Drawing {
 public:
  Drawing(const ChaosOptions& options, Random& random) : options_(options), random_(random) {}

  Plan Draw() {
    // Small worlds are drawn more often, because they find the most errors in relation to their cost.
    plan_.world_size = options_.world_size.value_or(
        static_cast<int>(random_.Chance(0.7) ? random_.Between(1, 6) : random_.Between(7, kMaxRanks)));
    DrawNetwork();
    plan_.join_timeout = milliseconds(random_.Between(3000, 8000));
    for (std::uint64_t i = random_.Between(1, 6); i > 0; --i) plan_.steps.push_back(DrawStep());
    DrawFaults();
    DrawRebuild();
    return std::move(plan_);
  }

 private:
  template <typename T>
  T Pick(std::initializer_list<T> from) {
    return *(from.begin() + random_.Below(from.size()));
  }
  Rank AnyRank() { return static_cast<Rank>(random_.Below(static_cast<std::uint64_t>(plan_.world_size))); }
  bool negative(Negative which) const { return options_.negative == which; }

  void DrawNetwork() {
    SimOptions& sim = plan_.sim;
    sim.world_size = plan_.world_size + 2;
    sim.seed = random_.Next();
    sim.link.max_delay = microseconds(random_.Between(1, 500));
    if (random_.Chance(0.5)) sim.link.max_slice_bytes = random_.Between(64, 1500);
    if (random_.Chance(0.3)) sim.link.clog_probability = random_.Unit() * 0.05;
    sim.buffer_bytes = kLineBytes * random_.Between(1, 64);
    sim.late_release = random_.Chance(0.3);
    sim.reads_late = random_.Chance(0.4) || negative(Negative::kEarlyRelease);
    sim.control_thread = true;
    sim.handshakes = random_.Chance(0.7);
    sim.silence_timeout = milliseconds(random_.Between(3000, 30'000));
    sim.sabotage.ignores_losses = negative(Negative::kEofIgnored);
    sim.sabotage.releases_early = negative(Negative::kEarlyRelease);
    plan_.store_beside_rank_0 = random_.Chance(0.5);
    plan_.same_host = random_.Chance(0.3);
    plan_.frame_bytes = static_cast<std::uint32_t>(kLineBytes * random_.Between(1, 32));
    plan_.eager_bytes = random_.Below(3000);
    plan_.checksums = random_.Chance(0.5) && !negative(Negative::kPayloadFlips);
    plan_.compare_results = random_.Chance(0.2) && !negative(Negative::kPayloadFlips);
  }

  Step DrawStep() {
    Step step;
    step.timeout = milliseconds(random_.Between(2000, 6000));
    const double kind = random_.Unit();
    if (kind < 0.75 || plan_.world_size == 1) {
      step.collective = DrawCollective();
    } else if (kind < 0.9) {
      step.kind = Step::Kind::kShift;
      step.shift = static_cast<Rank>(random_.Between(1, static_cast<std::uint64_t>(plan_.world_size) - 1));
      step.bytes = random_.Below(kMaxMessageBytes);
      step.from_any_rank = random_.Chance(0.3);
    } else {
      step.kind = Step::Kind::kSplit;
      step.colors = static_cast<int>(random_.Between(1, 3));
      step.count = random_.Below(200);
    }
    return step;
  }

  // Draws any algorithm, or leaves the choice to Rondo; any root; in place or not; and counts that are equal or
  // different for each rank.
  plain::Case DrawCollective() {
    const auto algorithms = AllAlgorithms();
    const AlgorithmEntry& entry = algorithms[random_.Below(algorithms.size())];
    const auto ranks = static_cast<std::uint64_t>(plan_.world_size);
    plain::Case drawn;
    drawn.salt = static_cast<std::int64_t>(plan_.steps.size());
    drawn.collective = entry.collective;
    if (random_.Chance(0.85)) drawn.algorithm = entry.algorithm;
    if (HasRoot(entry.collective)) drawn.root = AnyRank();
    drawn.in_place = random_.Chance(0.5);
    const std::uint64_t blocks = BlocksOf(entry.collective, plan_.world_size) > 1 ? ranks : 1;
    drawn.counts.assign(ranks, random_.Below(kMaxElements / blocks));
    drawn.varying = blocks > 1 && !entry.traits.needs_equal_counts && random_.Chance(0.5);
    if (drawn.varying)
      for (std::uint64_t& count : drawn.counts)
        count = random_.Chance(0.2) ? 0 : random_.Below(2 * kMaxElements / blocks);
    return drawn;
  }

  // ---- faults ----

  void DrawFaults() {
    using Kind = Fault::Kind;
    if (negative(Negative::kEofIgnored)) return AddFault(Kind::kKill);
    if (negative(Negative::kPayloadFlips)) return AddFault(Kind::kFlipPayload);
    if (negative(Negative::kEarlyRelease)) return;
    if (negative(Negative::kNoDeadline)) {
      AddFault(Kind::kPause);
      plan_.faults.back().lasts = std::chrono::hours(1);
      return;
    }
    const double many = random_.Unit();
    const int count = many < 0.15 ? 0 : many < 0.6 ? 1 : many < 0.85 ? 2 : 3;
    // Without checksums a corrupted payload is not detected, so headers are corrupted instead.
    const Kind flip = plan_.checksums ? Kind::kFlipPayload : Kind::kFlipHeader;
    for (int i = 0; i < count; ++i)
      AddFault(Pick({Kind::kKill, Kind::kKill, Kind::kKill, Kind::kPause, Kind::kPause, Kind::kPartition, Kind::kOneWay,
                     Kind::kCutLane, Kind::kCutControl, Kind::kFlipHeader, flip, Kind::kStoreKill, Kind::kStorePause,
                     Kind::kStoreCut, Kind::kStoreStall, Kind::kForeignClient}));
  }

  // Lets ranks rebuild only with handshakes, because without them a rank could not tell the processes of two
  // generations apart.
  void DrawRebuild() {
    const bool demanded = negative(Negative::kTwoRosters);
    if (options_.negative != Negative::kNone && !demanded) return;
    plan_.rebuild = plan_.sim.handshakes && (demanded || random_.Chance(0.5));
    if (!plan_.rebuild) return;
    if (random_.Chance(0.3)) plan_.min_ranks = plan_.world_size / 2 + 1;
    if (!random_.Chance(0.4)) return;
    AddFault(Pick({Fault::Kind::kKill, Fault::Kind::kKill, Fault::Kind::kPause, Fault::Kind::kPartition}));
    if (plan_.faults.empty()) return;
    Fault& second = plan_.faults.back();  // occurs while the remaining ranks find each other
    second.at_event.reset();
    second.at += milliseconds(random_.Below(random_.Chance(0.5) ? 100 : 15'000));
  }

  void AddFault(Fault::Kind kind) {
    using Kind = Fault::Kind;
    const bool needs_two = kind == Kind::kCutLane || kind == Kind::kCutControl || kind == Kind::kFlipHeader ||
                           kind == Kind::kFlipPayload || kind == Kind::kPartition || kind == Kind::kOneWay;
    if (needs_two && plan_.world_size == 1) return;
    if (kind == Kind::kForeignClient && !plan_.sim.handshakes) return;
    Fault fault;
    fault.kind = kind;
    fault.ranks = {AnyRank()};
    // A rendezvous takes a few milliseconds, and the steps take a few more.
    fault.at = microseconds(random_.Below(random_.Chance(0.4) ? 3000 : 25'000));
    fault.lasts = random_.Chance(0.5) ? Duration(milliseconds(random_.Between(1, 700)))
                                      : Duration(milliseconds(random_.Between(6500, 12'000)));
    switch (kind) {
      case Kind::kKill:
        if (random_.Chance(0.5)) fault.at_event = random_.Below(3000);
        break;
      case Kind::kPartition:
      case Kind::kOneWay:
        for (Rank rank = 0; rank < plan_.world_size; ++rank)
          if (rank != fault.ranks.front() && random_.Chance(0.3)) fault.ranks.push_back(rank);
        break;
      case Kind::kCutLane:
      case Kind::kCutControl:
      case Kind::kFlipHeader:
      case Kind::kFlipPayload: {
        const Rank from = fault.ranks.front();
        const auto others = static_cast<std::uint64_t>(plan_.world_size) - 1;
        // In most algorithms neighbours exchange data.
        const auto further = random_.Chance(0.6) ? 1 : random_.Between(1, others);
        fault.ranks.push_back(static_cast<Rank>((static_cast<std::uint64_t>(from) + further) % (others + 1)));
        fault.number = kind == Kind::kCutLane      ? random_.Below(4000)
                       : kind == Kind::kCutControl ? random_.Below(200)
                                                   : random_.Below(6);
        const bool flips = kind == Kind::kFlipHeader || kind == Kind::kFlipPayload;
        if (flips && plan_.checksums && random_.Chance(0.2)) fault.lane = 1;
        break;
      }
      case Kind::kStoreCut: fault.number = random_.Below(400); break;
      case Kind::kForeignClient: fault.number = random_.Below(5); break;
      case Kind::kPause:
      case Kind::kStoreKill:
      case Kind::kStorePause:
      case Kind::kStoreStall: break;
    }
    plan_.faults.push_back(std::move(fault));
  }

  const ChaosOptions& options_;
  Random& random_;
  Plan plan_;
};

}  // namespace

std::string Describe(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kCollective: return plain::Describe(step.collective);
    case Step::Kind::kShift:
      return fmt::format("messages of {} bytes, each to the rank that is {} higher{}", step.bytes, step.shift,
                         step.from_any_rank ? ", received from any rank" : "");
    case Step::Kind::kSplit:
      return fmt::format("a split by {} colors, {} elements summed in each", step.colors, step.count);
  }
  return "";
}

std::string Describe(const Fault& fault) {
  using Kind = Fault::Kind;
  const std::string ranks = fmt::format("{}", fmt::join(fault.ranks, ", "));
  const std::string when =
      fault.at_event ? fmt::format("at event {}", *fault.at_event) : fmt::format("at {:.3f} ms", Ms(fault.at));
  const std::string lasting = fmt::format("{} for {:.0f} ms", when, Ms(fault.lasts));
  switch (fault.kind) {
    case Kind::kKill: return fmt::format("kill rank {} {}", ranks, when);
    case Kind::kPause: return fmt::format("stop rank {} {}", ranks, lasting);
    case Kind::kPartition: return fmt::format("partition ranks {} from all others {}", ranks, lasting);
    case Kind::kOneWay: return fmt::format("lose what ranks {} send to others {}", ranks, lasting);
    case Kind::kCutLane: return fmt::format("cut the lane of ranks {} at byte {}", ranks, fault.number);
    case Kind::kCutControl:
      return fmt::format("cut the control connection of ranks {} at byte {}", ranks, fault.number);
    case Kind::kFlipHeader:
    case Kind::kFlipPayload:
      return fmt::format("damage the {} of frame {} on lane {} between ranks {}",
                         fault.kind == Kind::kFlipHeader ? "header" : "payload", fault.number, fault.lane, ranks);
    case Kind::kStoreKill: return fmt::format("kill the store {}", when);
    case Kind::kStorePause: return fmt::format("stop the store {}", lasting);
    case Kind::kStoreCut: return fmt::format("cut the store's connection to rank {} at byte {}", ranks, fault.number);
    case Kind::kStoreStall: return fmt::format("stall the store's receipt of rank {}'s claim {}", ranks, lasting);
    case Kind::kForeignClient: return fmt::format("a foreign client connects to rank {} {}", ranks, when);
  }
  return "";
}

std::string_view Name(Fault::Kind kind) {
  using Kind = Fault::Kind;
  switch (kind) {
    case Kind::kKill: return "kill";
    case Kind::kPause: return "pause";
    case Kind::kPartition: return "partition";
    case Kind::kOneWay: return "one_way";
    case Kind::kCutLane: return "cut_lane";
    case Kind::kCutControl: return "cut_control";
    case Kind::kFlipHeader: return "flip_header";
    case Kind::kFlipPayload: return "flip_payload";
    case Kind::kStoreKill: return "store_kill";
    case Kind::kStorePause: return "store_pause";
    case Kind::kStoreCut: return "store_cut";
    case Kind::kStoreStall: return "store_stall";
    case Kind::kForeignClient: return "foreign_client";
  }
  return "unknown";
}

Duration Plan::shortest_timeout() const {
  Duration shortest = join_timeout;
  for (const Step& step : steps) shortest = std::min(shortest, step.timeout);
  return shortest;
}

Plan DrawPlan(const ChaosOptions& options, Random& random) { return Drawing(options, random).Draw(); }

}  // namespace rondo::simulation
