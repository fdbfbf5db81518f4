#include "tests/simulation/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "collectives/waiter.h"

namespace rondo {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);  // of virtual time

// Nothing in a simulated job may block the one thread there is.
class NoWaiter final : public Waiter {
 public:
  void Sleep(Endpoint&, int, TimePoint) override { ++sleeps; }
  void Yield() override {}
  int sleeps = 0;
};

struct PlannedOperation {
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  std::uint64_t count = 0;
  Rank root = 0;
  bool in_place = true;
};

// Small whole numbers, different for each rank, operation and element.
std::int32_t Value(Rank rank, std::size_t operation, std::uint64_t i) {
  return static_cast<std::int32_t>(i % 97) + 100 * rank + 7 * static_cast<std::int32_t>(operation);
}

class Story {
 public:
  explicit Story(const StoryOptions& options) : random_(options.seed), kills_(options.kill) {}

  StoryOutcome Run() {
    Draw();
    Build();
    Play();
    outcome_.counters = network_->counters();
    outcome_.trace_hash = network_->trace_hash();
    return outcome_;
  }

 private:
  struct RankState {
    std::unique_ptr<Communicator> communicator;
    std::size_t next = 0;  // operation to issue
    std::vector<std::int32_t> input, output;
    Work work;
    bool working = false;
    bool over = false;
    std::optional<Error> error;
  };

  void Draw() {
    world_ = static_cast<int>(random_.Between(1, 6));
    SimOptions sim;
    sim.world_size = world_;
    sim.seed = random_.Next();
    sim.link.max_delay = std::chrono::microseconds(random_.Between(1, 500));
    if (random_.Chance(0.5)) sim.link.max_slice_bytes = random_.Between(1, 700);
    if (random_.Chance(0.3)) sim.link.clog_probability = random_.Unit() * 0.05;
    sim.buffer_bytes = kLineBytes * random_.Between(1, 64);
    sim.late_release = random_.Chance(0.5);
    network_ = std::make_unique<SimNetwork>(sim);
    frame_bytes_ = static_cast<std::uint32_t>(kLineBytes * random_.Between(1, 32));

    constexpr std::array kAllReduces{Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveHalving,
                                     Algorithm::kRecursiveDoubling};
    constexpr std::array kBroadcasts{Algorithm::kTree, Algorithm::kScatterAllGather};
    for (std::uint64_t i = random_.Between(1, 6); i > 0; --i) {
      PlannedOperation operation;
      operation.in_place = random_.Chance(0.5);
      switch (random_.Below(5)) {
        case 0: break;  // a barrier
        case 1:
          operation.collective = Collective::kBroadcast;
          operation.algorithm = kBroadcasts[random_.Below(kBroadcasts.size())];
          operation.root = static_cast<Rank>(random_.Below(static_cast<std::uint64_t>(world_)));
          operation.count = random_.Below(2000);
          break;
        default:
          operation.collective = Collective::kAllReduce;
          operation.algorithm = kAllReduces[random_.Below(kAllReduces.size())];
          operation.count = random_.Below(2000);
      }
      plan_.push_back(operation);
    }
    if (world_ > 1 && kills_.value_or(random_.Chance(0.6))) {
      victim_ = static_cast<Rank>(random_.Below(static_cast<std::uint64_t>(world_)));
      network_->Kill(victim_, network_->clock()->Now() + std::chrono::microseconds(random_.Below(10'000)));
    }
  }

  void Build() {
    waiter_ = std::make_shared<NoWaiter>();
    std::vector<PeerIdentity> peers;
    for (Rank r = 0; r < world_; ++r)
      peers.push_back({.host = fmt::format("host{}", r), .address = network_->transport(r)->Address()});
    for (Rank r = 0; r < world_; ++r) {
      CommunicatorOptions options;
      options.rank = r;
      options.peers = peers;
      options.transport = network_->transport(r);
      options.clock = network_->clock();
      options.waiter = waiter_;
      options.timeout = kTimeout;
      options.progress_thread = false;
      options.frame_bytes = frame_bytes_;
      auto communicator = Communicator::Create(std::move(options));
      if (!communicator) return Violate(communicator.error().ToString());
      ranks_.emplace_back();
      ranks_.back().communicator = std::move(*communicator);
    }
  }

  void Play() {
    const TimePoint begin = network_->clock()->Now();
    while (outcome_.violation.empty()) {
      bool all_over = true;
      for (Rank r = 0; r < world_; ++r) {
        if (r == victim_ && network_->counters().kills > 0) continue;
        RankState& rank = ranks_[static_cast<std::size_t>(r)];
        rank.communicator->Progress();  // also when it is through: it still answers others
        if (!rank.over) TakeTurn(r, rank);
        all_over &= rank.over;
      }
      if (all_over) break;
      outcome_.killed |= network_->counters().kills > 0;
      // Nothing under way means that only a deadline can end this.
      if (!network_->Step()) network_->clock()->Advance(std::chrono::milliseconds(20));
      if (network_->clock()->Now() > begin + 3 * kTimeout)
        Violate(fmt::format("after {} s of virtual time somebody still waits",
                            std::chrono::duration<double>(network_->clock()->Now() - begin).count()));
    }
    if (waiter_->sleeps > 0) Violate("a rank tried to block the simulation's only thread");
    if (!outcome_.violation.empty()) return;
    for (Rank r = 0; r < world_; ++r) Judge(r, ranks_[static_cast<std::size_t>(r)]);
  }

  void TakeTurn(Rank r, RankState& rank) {
    while (true) {
      if (rank.working) {
        const auto status = rank.work.Test();
        if (!status) return;
        rank.working = false;
        if (!*status) {
          rank.error = status->error();
          rank.over = true;
          ++outcome_.failed_ranks;
          return;
        }
        CheckValues(r, rank);
        ++rank.next;
      }
      if (rank.next == plan_.size()) {
        rank.over = true;
        return;
      }
      Issue(r, rank);
    }
  }

  void Issue(Rank r, RankState& rank) {
    const PlannedOperation& planned = plan_[rank.next];
    rank.input.assign(planned.count, 0);
    for (std::uint64_t i = 0; i < planned.count; ++i) rank.input[i] = Value(r, rank.next, i);
    rank.output = rank.input;
    const std::int32_t* input = planned.in_place ? rank.output.data() : rank.input.data();
    const OperationOptions options{.algorithm = planned.algorithm};
    switch (planned.collective) {
      case Collective::kAllReduce:
        rank.work = rank.communicator->AllReduceAsync(input, rank.output.data(), planned.count, DataType::kInt32,
                                                      ReduceOp::kSum, options);
        break;
      case Collective::kBroadcast:
        rank.work = rank.communicator->BroadcastAsync(input, rank.output.data(), planned.count, DataType::kInt32,
                                                      planned.root, options);
        break;
      case Collective::kBarrier: rank.work = rank.communicator->BarrierAsync(options); break;
      default: break;
    }
    rank.working = true;
  }

  void CheckValues(Rank r, const RankState& rank) {
    const PlannedOperation& planned = plan_[rank.next];
    for (std::uint64_t i = 0; i < planned.count; ++i) {
      std::int32_t expected = 0;
      if (planned.collective == Collective::kBroadcast) {
        expected = Value(planned.root, rank.next, i);
      } else {
        for (Rank from = 0; from < world_; ++from) expected += Value(from, rank.next, i);
      }
      if (rank.output[i] != expected)
        return Violate(fmt::format("rank {} operation {} element {}: {} instead of {}", r, rank.next + 1, i,
                                   rank.output[i], expected));
    }
  }

  void Judge(Rank r, RankState& rank) {
    if (r == victim_ && network_->counters().kills > 0) return;
    if (!rank.error) return;
    if (network_->counters().kills == 0)
      return Violate(fmt::format("nobody died, but rank {} failed: {}", r, rank.error->ToString()));
    if (rank.error->code() != ErrorCode::kPeerLost || rank.error->culprit() != victim_)
      return Violate(fmt::format("rank {} died, but rank {} says: {}", victim_, r, rank.error->ToString()));
    const Status later = rank.communicator->Barrier();
    if (later || later.error().message() != rank.error->message())
      return Violate(fmt::format("rank {} failed with '{}', but a later call {}", r, rank.error->message(),
                                 later ? std::string("succeeded") : "said '" + later.error().message() + "'"));
  }

  void Violate(std::string text) {
    if (outcome_.violation.empty()) outcome_.violation = std::move(text);
  }

  Random random_;
  std::optional<bool> kills_;
  int world_ = 1;
  std::uint32_t frame_bytes_ = 0;
  Rank victim_ = kNoRank;
  std::vector<PlannedOperation> plan_;
  std::unique_ptr<SimNetwork> network_;
  std::shared_ptr<NoWaiter> waiter_;
  std::vector<RankState> ranks_;
  StoryOutcome outcome_;
};

}  // namespace

StoryOutcome RunStory(const StoryOptions& options) { return Story(options).Run(); }

}  // namespace rondo
