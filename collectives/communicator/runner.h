// Runs a communicator's operations, one after the other, each on its path: a schedule on lanes or, if all ranks share a
// host, possibly the intranode path.
//
// Thread rule: the owner of the endpoint; any thread may call Withdraw.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "collectives/engine/lanes_path.h"
#include "collectives/engine/operation_path.h"
#include "collectives/intranode/intranode_path.h"

namespace rondo {

class Runner {
 public:
  // `movers`: one for each rail; the intranode path uses the first.
  Runner(const EngineOptions& options, const RailOptions& rails, Endpoint& endpoint, std::span<Mover* const> movers)
      : rank_(options.rank),
        world_size_(options.world_size),
        mover_(*movers.front()),
        lanes_(options, rails, endpoint, movers) {}

  // Makes the intranode path, for the operations that follow. REQUIRES: the shared segment is ready. All ranks must
  // call this before the same operation.
  void UseSegment(SharedSegment& segment) {
    intranode_.emplace(rank_, world_size_, segment, mover_);
    intranode_->RunsOn(core_);
    intranode_seen_.store(&*intranode_);
  }
  bool has_segment() const { return intranode_.has_value(); }

  // Starts an operation: on lanes if it has a plan, otherwise on the intranode path. REQUIRES: nothing runs; without a
  // plan, has_segment() and IntranodePath::Serves(operation).
  Status Start(const PathStart& start) {
    OperationPath& path = start.plan != nullptr ? static_cast<OperationPath&>(lanes_) : *intranode_;
    RONDO_TRY(path.Start(start));
    running_ = &path;
    return {};
  }
  // The number of lanes to each peer that an operation with this plan uses.
  std::uint32_t RailsOf(const Plan& plan, const OperationDescriptor& operation) const {
    return lanes_.RailsOf(plan, operation);
  }

  // Whether devices may run an operation of this kind on their own memory.
  bool ServesDevices(const OperationDescriptor& operation) const {
    return intranode_ && intranode_->ServesDevices(operation);
  }
  // REQUIRES: ServesDevices(operation), nothing runs.
  void StartOnDevices(const PathStart& start, DevicePeers* peers, DeviceProgram* program = nullptr) {
    intranode_->StartOnDevices(start, peers, program);
    running_ = &*intranode_;
  }
  bool declined() const { return intranode_->declined(); }
  bool devices_are_time_sliced() const { return intranode_ && intranode_->is_time_sliced(); }

  bool running() const { return running_ != nullptr; }
  Result<Progress> Poll() {
    if (!running()) return Progress::kNothing;
    Result<Progress> progress = running_->Poll();
    if (progress && *progress == Progress::kComplete) running_ = nullptr;
    return progress;
  }
  void Drain() {
    if (intranode_) intranode_->Drain();
    lanes_.Drain();
    running_ = nullptr;
  }
  // Must be called before the user gets memory back that other ranks may still read. From then on these ranks discard
  // results that they compute from the memory. Drain does the same, but may have to wait first.
  void Withdraw() {
    if (IntranodePath* const path = intranode_seen_.load(); path != nullptr) path->Withdraw();
  }

  // ---- the running operation, if there is one ----
  const OperationDescriptor& operation() const { return running() ? running_->operation() : lanes_.operation(); }
  std::vector<BlockedStep> Blocked() const { return running() ? running_->Blocked() : std::vector<BlockedStep>(); }
  bool WaitsFor(Rank peer) const { return running() && running_->WaitsFor(peer); }
  std::optional<Engine::FailedLane> Failure() const { return running() ? running_->Failure() : std::nullopt; }
  std::optional<Error> FindMismatchedPeer() { return running() ? running_->FindMismatchedPeer() : std::nullopt; }
  bool MoverBusy() const { return running() && running_->MoverBusy(); }
  bool HasNews() const { return running() && running_->HasNews(); }
  AwaitedRanks WhereAreAwaited() const { return running() ? running_->WhereAreAwaited() : AwaitedRanks::kUnknown; }

  // Returns true if operations do not need the endpoint now: there is an intranode path, and no schedule runs.
  bool is_on_segment_alone() const { return intranode_ && running_ != &lanes_; }
  // Whether the intranode path can continue, now or very soon. Polls for a shorter time than reading a clock takes.
  bool GlanceAtSegment() const {
    constexpr int kGlances = 16;
    if (!running() || running_ == &lanes_) return false;
    for (int i = 0; i < kGlances; ++i)
      if (intranode_->HasNews()) return true;
    return false;
  }
  // Sets the core on which this rank runs now (Waiter::Core).
  void RunsOn(int core) {
    core_ = core;
    if (intranode_) intranode_->RunsOn(core);
  }

 private:
  const Rank rank_;
  const int world_size_;
  Mover& mover_;
  int core_ = -1;
  LanesPath lanes_;
  std::optional<IntranodePath> intranode_;
  std::atomic<IntranodePath*> intranode_seen_{nullptr};
  OperationPath* running_ = nullptr;  // the path of the running operation; null: none runs
};

}  // namespace rondo
