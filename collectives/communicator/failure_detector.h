// Looks for failures while operations are pending: collects the facts, asks Suspicion, and fails the communicator for
// what it says.
//
// Thread rule: the owner.
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

// A communicator, as its detector calls it.
class FailureDetectorListener {
 public:
  // Of a group: looks for a failure of its parent first, and fails for the cause of that. Whether it did.
  virtual bool CheckParentFailure() = 0;

 protected:
  ~FailureDetectorListener() = default;
};

class FailureDetector {
 public:
  // The parts of the communicator that it needs. All of them outlive it.
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
  // `names_rails`: errors say on which rail a peer is late.
  FailureDetector(bool names_rails, const Neighbours& neighbours) : names_rails_(names_rails), near_(neighbours) {}

  // The current operation has just started: what peers have sent before is compared with it.
  void OnStarted() { events_seen_ = 0; }

  // Nothing moves. Whether something was found: an error, or operations that end without one. `waited`: as in
  // ProgressLoop::DriveUntil.
  bool Check(TimePoint now, Sequence waited);
  // Something moves: only what is late.
  bool CheckDeadlines(TimePoint now, Sequence waited);
  // When this rank reports that a pending operation is late.
  TimePoint ReportTime(Sequence sequence);

  // The peers that the current operation is blocked on, or those that have not joined the shared segment yet.
  std::vector<BlockedOn> BlockedPeers() const;
  LateOperation LateAt(const OperationQueue::Operation& operation) const;

 private:
  bool CheckAll(TimePoint now, Sequence waited);
  bool CheckPeers();
  bool CheckLanes(TimePoint now);
  bool CheckClock(TimePoint now, Sequence waited);
  // What peers are compared with; nullopt: no operation runs, nor waits for the shared segment.
  std::optional<OwnOperation> OwnNow();
  std::optional<LaneFailure> FindLaneFailure() const;
  void SendProgressReports();

  const bool names_rails_;
  const Neighbours near_;
  std::uint64_t events_seen_ = 0;  // of peer_events
};

}  // namespace rondo
