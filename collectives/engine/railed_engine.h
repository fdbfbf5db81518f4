// The engines of a communicator, one for each rail (transport/rail.h). A large operation is cut into a share for each,
// of every block alike, and they run side by side; what is small, or cannot be cut, goes by the first alone. To
// everybody else they are one engine.
//
// All ranks must cut alike: the rule (RailsOf) knows only what they have agreed on.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/engine/engine.h"

namespace rondo {

struct RailOptions {
  std::uint32_t rails = 1;
  // No rail gets less of an operation than so many bytes of what a rank brings or gets, whichever is more.
  std::uint64_t least_bytes = 256 << 10;
};

// How many rails, of so many, share an operation. One: its plan moves several blocks in one transfer (Plan::apart), or
// their lengths differ, or it is small.
std::uint32_t RailsOf(const RailOptions& options, const Plan& plan, const OperationDescriptor& operation);

class RailedEngine {
 public:
  // `options`, whose `rail` is set here, are every engine's. A mover for each rail. Endpoint and movers outlive it.
  RailedEngine(EngineOptions options, const RailOptions& rails, Endpoint& endpoint, std::span<Mover* const> movers);

  // All of these as Engine has them.
  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale);
  bool running() const;
  std::uint32_t RailsOf(const Plan& plan, const OperationDescriptor& operation) const {
    return rondo::RailsOf(rails_, plan, operation);
  }
  Result<Progress> Poll();
  void Drain();
  std::vector<BlockedStep> Waiting() const;
  std::optional<Engine::FailedLane> FindFailedLane() const;
  bool MoverBusy() const;
  bool WaitsFor(Rank peer) const;
  std::optional<Error> FindMismatchedPeer();
  const OperationDescriptor& operation() const { return engines_.front()->operation(); }

 private:
  std::span<const std::unique_ptr<Engine>> in_use() const { return std::span(engines_).first(used_); }

  const RailOptions rails_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::size_t used_ = 1;  // by the running operation, or the last
};

}  // namespace rondo
