// Runs operations on lanes. For each rail, an engine runs the schedule.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "collectives/engine/operation_path.h"
#include "collectives/engine/railed_engine.h"

namespace rondo {

class LanesPath final : public OperationPath {
 public:
  // The arguments are those of RailedEngine.
  LanesPath(const EngineOptions& options, const RailOptions& rails, Endpoint& endpoint, std::span<Mover* const> movers)
      : engine_(options, rails, endpoint, movers) {}

  // How many lanes to each peer the operation uses.
  std::uint32_t RailsOf(const Plan& plan, const OperationDescriptor& operation) const {
    return engine_.RailsOf(plan, operation);
  }

  // REQUIRES: start.plan is not null.
  Status Start(const PathStart& start) override {
    RONDO_CHECK(start.plan != nullptr, "{} has no schedule", start.operation.ToString());
    return engine_.Start(*start.plan, start.operation, start.buffers, start.scale);
  }
  Result<Progress> Poll() override { return engine_.Poll(); }
  void Drain() override { engine_.Drain(); }
  const OperationDescriptor& operation() const override { return engine_.operation(); }
  bool HasNews() const override { return false; }  // the endpoint reports everything
  bool MoverBusy() const override { return engine_.MoverBusy(); }
  AwaitedRanks WhereAreAwaited() const override { return AwaitedRanks::kUnknown; }
  std::vector<BlockedStep> Blocked() const override { return engine_.Waiting(); }
  bool WaitsFor(Rank peer) const override { return engine_.WaitsFor(peer); }
  std::optional<Engine::FailedLane> Failure() const override { return engine_.FindFailedLane(); }
  std::optional<Error> FindMismatchedPeer() override { return engine_.FindMismatchedPeer(); }

 private:
  RailedEngine engine_;
};

}  // namespace rondo
