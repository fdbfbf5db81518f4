// A path runs operations of a communicator, one after the other. There are two paths: one runs schedules on lanes
// (lanes_path.h), the other uses memory that the ranks of one host share (collectives/intranode/intranode_path.h). Each
// operation uses one path; at most one path runs at a time (collectives/communicator/runner.h).
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

// The arguments of Start. The path copies all of them except the plan, which must live until the operation has ended.
struct PathStart {
  const OperationDescriptor& operation;
  const OperationBuffers& buffers;
  double scale = 1.0;          // this rank's factor of a pre-multiplied sum
  bool in_place = false;       // whether input and output are the same memory; read by paths without a plan
  const Plan* plan = nullptr;  // the schedule; required by the path on lanes
};

class OperationPath {
 public:
  virtual ~OperationPath() = default;

  // Begins an operation. The caller must not free or touch the operation's memory until Poll returns kComplete or,
  // after an error of Poll, until Drain returns.
  // REQUIRES: no operation is running. If Start returns an error, no operation is running.
  virtual Status Start(const PathStart& start) = 0;
  // Moves the bytes that can move now. An error is final: the caller must Drain and must not Start again.
  virtual Result<Progress> Poll() = 0;
  // Ends the running operation after an error. Returns when nothing touches its memory any more. Takes bounded time.
  virtual void Drain() = 0;

  // ---- the running operation ----
  virtual const OperationDescriptor& operation() const = 0;
  // Whether Poll could move something that the endpoint does not report. A thread calls this after Endpoint::Arm,
  // before it sleeps.
  virtual bool HasNews() const = 0;
  // Whether the mover is working. When its work is done it wakes no thread, so the caller must poll.
  virtual bool MoverBusy() const = 0;
  virtual AwaitedRanks WhereAreAwaited() const = 0;

  // ---- called when the operation is blocked or has failed ----
  // The steps that wait for a peer, oldest first.
  virtual std::vector<BlockedStep> Blocked() const = 0;
  // Whether the running operation still has to receive from `peer`.
  virtual bool WaitsFor(Rank peer) const = 0;
  // The first peer that is still needed and whose lane has failed or ended, if there is one.
  virtual std::optional<Engine::FailedLane> Failure() const = 0;
  // An error that names a peer that runs another operation under the same sequence number; nullopt: no such peer was
  // found.
  virtual std::optional<Error> FindMismatchedPeer() = 0;
};

}  // namespace rondo
