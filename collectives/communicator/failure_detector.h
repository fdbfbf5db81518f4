// Looks for failures while operations are pending: collects the facts, passes them to Suspicion, and fails the
// communicator if Suspicion returns an error.
//
// Thread rule: the thread that makes progress (the owner).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/messages.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/peer_events.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/suspicion.h"

namespace rondo {

// The part of the communicator that the detector calls.
class FailureDetectorListener {
 public:
  // For a group: if its parent has failed, fails the group with the parent's cause and returns true. Otherwise returns
  // false.
  virtual bool CheckParentFailure() = 0;

 protected:
  ~FailureDetectorListener() = default;
};

class FailureDetector {
 public:
  // The parts of the communicator that the detector needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const SharedEndpoint& endpoint;
    OperationQueue& queue;
    CurrentOperation& current;
    Messages& messages;
    const Peers& peers;
    PeerEvents& peer_events;
    GraphWatch& graphs;
    Suspicion& suspicion;
    Failure& failure;
    FailureDetectorListener& listener;
  };
  // `names_rails`: whether errors say on which rail a peer is late.
  FailureDetector(bool names_rails, const Neighbours& neighbours) : names_rails_(names_rails), near_(neighbours) {}

  // Call it when the current operation has just started: what peers sent before must now be compared with it.
  void OnStarted() { events_seen_ = 0; }

  // Call it if nothing moves. Returns whether anything changed, that is, the communicator failed or operations ended.
  // `waited`: as in ProgressLoop::AdvanceUntil.
  bool Check(TimePoint now, Sequence waited);
  // Call it if something moves. Checks only the deadlines.
  bool CheckDeadlines(TimePoint now, Sequence waited);
  // The time at which this rank reports that a pending operation is late.
  TimePoint ReportTime(Sequence sequence);

  // The peers that the current operation is blocked on, and those that have not joined the shared segment yet.
  std::vector<BlockedOn> BlockedPeers() const;
  LateOperation LateAt(const OperationQueue::Operation& operation) const;

 private:
  bool CheckAll(TimePoint now, Sequence waited);
  bool CheckPeers();
  bool CheckLanes(TimePoint now);
  bool CheckClock(TimePoint now, Sequence waited);
  // This rank's operation, with which the operations of peers are compared; nullopt: none runs, and none waits for the
  // shared segment.
  std::optional<OwnOperation> OwnNow();
  std::optional<LaneFailure> FindLaneFailure() const;
  void SendProgressReports();

  const bool names_rails_;
  const Neighbours near_;
  std::uint64_t events_seen_ = 0;  // peer_events.count() at the last comparison with peers
};

}  // namespace rondo
