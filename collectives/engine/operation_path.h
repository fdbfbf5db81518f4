// A way on which a communicator's operations are done, one after the other: schedules on lanes (railed_engine.h), or
// memory that the ranks of one host share (collectives/intranode/intranode_path.h). The operations of a communicator
// alternate between its paths; at most one path runs at a time (collectives/communicator/runner.h).
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/engine/awaited_ranks.h"
#include "collectives/engine/blocked_step.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/plan.h"

namespace rondo {

// What a path is given of an operation. All is copied at Start but the plan, which lives until the operation has ended.
struct PathStart {
  const OperationDescriptor& operation;
  const OperationBuffers& buffers;
  double scale = 1.0;          // this rank's factor of a pre-multiplied sum
  bool in_place = false;       // for a path without a plan
  const Plan* plan = nullptr;  // of a path on lanes: its schedule
};

class OperationPath {
 public:
  virtual ~OperationPath() = default;

  // Begins an operation; its memory is lent until Poll says kComplete or, after an error, Drain returns. REQUIRES: none
  // is running. An error: nothing runs.
  virtual Status Start(const PathStart& start) = 0;
  // Moves what can move. An error is final: Drain, and never Start again.
  virtual Result<Progress> Poll() = 0;
  // Ends the running operation after an error: returns once nothing touches its memory. Bounded time.
  virtual void Drain() = 0;

  // ---- of the running operation ----
  virtual const OperationDescriptor& operation() const = 0;
  // A thread asks this after Endpoint::Arm, before it sleeps: whether Poll could move something that the endpoint does
  // not show.
  virtual bool HasNews() const = 0;
  // Whether the mover works on something; no rank is woken when it is done.
  virtual bool MoverBusy() const = 0;
  virtual AwaitedRanks WhereAreAwaited() const = 0;

  // ---- for the slow path ----
  // Its steps that wait for a peer, oldest first.
  virtual std::vector<BlockedStep> Blocked() const = 0;
  virtual bool WaitsFor(Rank peer) const = 0;
  // The first peer still needed whose lane is broken or ended, if any.
  virtual std::optional<Engine::FailedLane> Failure() const = 0;
  // A peer that is in another operation under the same number, if something shows it.
  virtual std::optional<Error> FindMismatchedPeer() = 0;
};

}  // namespace rondo
