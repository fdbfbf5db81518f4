#include "collectives/engine/railed_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "collectives/schedule/grid.h"
#include "transport/rail.h"

namespace rondo {

std::uint32_t RailsOf(const RailOptions& options, const Plan& plan, const OperationDescriptor& operation) {
  if (options.rails == 1 || operation.varying || !plan.apart) return 1;
  const auto blocks = static_cast<std::uint64_t>(plan.blocks == 1 ? 1 : plan.key.world_size);
  const std::uint64_t bytes = operation.elements() * blocks * SizeOf(operation.type);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes / std::max<std::uint64_t>(options.least_bytes, 1), 1, options.rails));
}

RailedEngine::RailedEngine(EngineOptions options, const RailOptions& rails, Endpoint& endpoint,
                           std::span<Mover* const> movers)
    : rails_(rails) {
  RONDO_CHECK(rails.rails >= 1 && rails.rails <= kMaxRails && movers.size() == rails.rails, "{} rails, {} movers",
              rails.rails, movers.size());
  for (options.rail = 0; options.rail < rails.rails; ++options.rail)
    engines_.push_back(std::make_unique<Engine>(options, endpoint, *movers[options.rail]));
}

Status RailedEngine::Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers,
                           double scale) {
  used_ = RailsOf(plan, operation);
  if (used_ == 1) return engines_.front()->Start(plan, operation, buffers, scale);
  const ChunkGrid cut(operation.elements(), SizeOf(operation.type), static_cast<std::uint32_t>(used_));
  for (std::uint32_t rail = 0; rail < used_; ++rail) {
    const Share share{cut.BeginElement(rail), cut.BeginElement(rail + 1)};
    if (Status started = engines_[rail]->Start(plan, operation, buffers, scale, share); !started) {
      Drain();
      return started;
    }
  }
  return {};
}

bool RailedEngine::running() const {
  return std::any_of(in_use().begin(), in_use().end(), [](const auto& engine) { return engine->running(); });
}

Result<Progress> RailedEngine::Poll() {
  if (used_ == 1) return engines_.front()->Poll();
  bool moved = false, running = false, completed = false;
  for (const auto& engine : in_use()) {
    if (!engine->running()) continue;
    RONDO_ASSIGN(const Progress progress, engine->Poll());
    moved |= progress != Progress::kNothing;
    completed |= progress == Progress::kComplete;
    running |= progress != Progress::kComplete;
  }
  if (completed && !running) return Progress::kComplete;
  return moved ? Progress::kMoved : Progress::kNothing;
}

void RailedEngine::Drain() {
  for (const auto& engine : engines_) engine->Drain();
}

std::vector<BlockedStep> RailedEngine::Waiting() const {
  std::vector<BlockedStep> all = engines_.front()->Waiting();
  if (used_ == 1) return all;
  for (std::size_t rail = 1; rail < used_; ++rail) {
    for (const BlockedStep& blocked : engines_[rail]->Waiting()) {
      all.push_back(blocked);
      all.back().rail = static_cast<std::uint32_t>(rail);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const BlockedStep& a, const BlockedStep& b) { return a.step < b.step; });
  return all;
}

std::optional<Engine::FailedLane> RailedEngine::FindFailedLane() const {
  for (const auto& engine : in_use())
    if (const auto failed = engine->FindFailedLane()) return failed;
  return std::nullopt;
}

bool RailedEngine::MoverBusy() const {
  return std::any_of(in_use().begin(), in_use().end(), [](const auto& engine) { return engine->MoverBusy(); });
}

bool RailedEngine::WaitsFor(Rank peer) const {
  return std::any_of(in_use().begin(), in_use().end(), [&](const auto& engine) { return engine->WaitsFor(peer); });
}

std::optional<Error> RailedEngine::FindMismatchedPeer() {
  for (const auto& engine : in_use())
    if (auto mismatch = engine->FindMismatchedPeer()) return mismatch;
  return std::nullopt;
}

}  // namespace rondo
