#include "tests/simulation/scenario.h"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/algorithms/table.h"
#include "collectives/communicator/waiter.h"
#include "collectives/schedule/layout.h"
#include "tests/communicator/plain.h"

namespace rondo {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);  // virtual time

// A simulated job has only one thread, which must not block.
class NoWaiter final : public Waiter {
 public:
  void Sleep(Endpoint&, int, TimePoint) override { ++sleeps; }
  void Yield() override {}
  int sleeps = 0;
};

class Scenario {
 public:
  explicit Scenario(const ScenarioOptions& options) : random_(options.seed), kills_(options.kill) {}

  ScenarioOutcome Run() {
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
    std::size_t next = 0;  // index of the next operation to issue
    std::unique_ptr<plain::Buffers> buffers;
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

    for (std::uint64_t i = random_.Between(1, 6); i > 0; --i) plan_.push_back(DrawOperation());
    if (world_ > 1 && kills_.value_or(random_.Chance(0.6))) {
      victim_ = static_cast<Rank>(random_.Below(static_cast<std::uint64_t>(world_)));
      network_->Kill(victim_, network_->clock()->Now() + std::chrono::microseconds(random_.Below(10'000)));
    }
    one_host_ = random_.Chance(0.5);
    checksums_ = random_.Chance(0.5);
  }

  // Draws an operation at random: its algorithm, its root, and whether it is in place. The counts of the ranks are
  // equal, or they differ and some may be zero.
  plain::Case DrawOperation() {
    const auto algorithms = AllAlgorithms();
    const AlgorithmEntry& entry = algorithms[random_.Below(algorithms.size())];
    const auto ranks = static_cast<std::uint64_t>(world_);
    plain::Case operation;
    operation.salt = static_cast<std::int64_t>(plan_.size());
    operation.collective = entry.collective;
    operation.algorithm = entry.algorithm;
    if (HasRoot(entry.collective)) operation.root = static_cast<Rank>(random_.Below(ranks));
    operation.in_place = random_.Chance(0.5);
    const std::uint64_t blocks = BlocksOf(entry.collective, world_) > 1 ? ranks : 1;
    operation.counts.assign(ranks, random_.Below(1000 / blocks));
    operation.varying = blocks > 1 && !entry.traits.needs_equal_counts && random_.Chance(0.5);
    if (operation.varying)
      for (std::uint64_t& count : operation.counts) count = random_.Chance(0.2) ? 0 : random_.Below(2000 / blocks);
    return operation;
  }

  void Build() {
    waiter_ = std::make_shared<NoWaiter>();
    std::vector<PeerIdentity> peers;
    for (Rank r = 0; r < world_; ++r)
      peers.push_back({.host = fmt::format("host{}", r),
                       .host_id = one_host_ ? "one" : "",
                       .address = network_->transport(r)->Address()});
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
      options.checksums = checksums_;
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
        // even after the rank has finished its last operation, because it must still answer other ranks
        rank.communicator->Progress();
        if (!rank.over) TakeTurn(r, rank);
        all_over &= rank.over;
      }
      if (all_over) break;
      outcome_.killed |= network_->counters().kills > 0;
      // If the network has no event left, only a deadline can end the wait.
      if (!network_->Step()) network_->clock()->Advance(std::chrono::milliseconds(20));
      if (network_->clock()->Now() > begin + 3 * kTimeout)
        Violate(fmt::format("after {} s of virtual time a rank still waits",
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
    const plain::Case& planned = plan_[rank.next];
    rank.buffers = std::make_unique<plain::Buffers>(planned, r, world_);
    rank.work = plain::Issue(*rank.communicator, planned, rank.buffers->in(), rank.buffers->out(), DataType::kInt64,
                             ReduceOp::kSum);
    rank.working = true;
  }

  void CheckValues(Rank r, const RankState& rank) {
    const std::string wrong = rank.buffers->Wrong(plan_[rank.next], r, world_);
    if (!wrong.empty())
      Violate(fmt::format("operation {}, {}: {}", rank.next + 1, plain::Describe(plan_[rank.next]), wrong));
  }

  void Judge(Rank r, RankState& rank) {
    if (r == victim_ && network_->counters().kills > 0) return;
    if (!rank.error) return;
    if (network_->counters().kills == 0)
      return Violate(fmt::format("no rank died, but rank {} failed: {}", r, rank.error->ToString()));
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
  bool checksums_ = false;
  bool one_host_ = false;  // true: all ranks share one host, so large vectors run in slices (slices.h)
  Rank victim_ = kNoRank;
  std::vector<plain::Case> plan_;
  std::unique_ptr<SimNetwork> network_;
  std::shared_ptr<NoWaiter> waiter_;
  std::vector<RankState> ranks_;
  ScenarioOutcome outcome_;
};

}  // namespace

ScenarioOutcome RunScenario(const ScenarioOptions& options) { return Scenario(options).Run(); }

}  // namespace rondo
