// The engines of a communicator, one for each rail (transport/rail.h). A large operation is cut: each engine gets the
// same share of every block, and the engines run side by side. An operation that is small or cannot be cut runs on the
// first engine alone. All other code sees one engine.
//
// All ranks must cut alike, so the rule (RailsOf) depends only on values on which the ranks have agreed.
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
  // Each rail gets at least this many bytes of a rank's input or output, whichever is larger.
  std::uint64_t least_bytes = 256 << 10;
};

// How many rails share an operation. The result is 1 if a transfer of the plan may span blocks (Plan::apart), if the
// lengths of blocks differ, or if the operation is small.
std::uint32_t RailsOf(const RailOptions& options, const Plan& plan, const OperationDescriptor& operation);

class RailedEngine {
 public:
  // Every engine gets `options`, with its own `rail`. `movers` has one mover for each rail. Endpoint and movers must
  // outlive this object.
  RailedEngine(EngineOptions options, const RailOptions& rails, Endpoint& endpoint, std::span<Mover* const> movers);

  // The methods below have the contracts of Engine's methods.
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
  // number of rails that the running operation uses, or if none runs, that the previous operation used
  std::size_t used_ = 1;
};

}  // namespace rondo
