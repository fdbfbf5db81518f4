// Handles control messages of peers and losses of peers: passes each event to the class that needs it.
//
// Thread rules: threads of the transport call the methods of PeerObserver, one at a time; AskForKeptGoodbyes is for the
// owner; any thread may call count().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/ids.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/kept_goodbyes.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/point_to_point/submission_queue.h"
#include "transport/transport.h"

namespace rondo {

// The part of the communicator that PeerEvents calls. Thread rule: any thread.
class PeerEventListener {
 public:
  // Wakes the owner, because something has arrived that it must look at.
  virtual void WakeOwner() = 0;
  // For a group: if its parent has failed, and there is no evidence yet that all ranks have made the group, fails the
  // group with the parent's cause. Returns whether it did.
  virtual bool AdoptParentFailure() = 0;
  // Whether this is a group, and there is no evidence yet that all ranks have made it.
  virtual bool IsNewGroup() const = 0;

 protected:
  ~PeerEventListener() = default;
};

class PeerEvents final : public PeerObserver {
 public:
  // All references must outlive this object. `communicator`: its id (CommunicatorOptions). `kept`: if null, a peer that
  // ended before it was connected counts as lost.
  PeerEvents(std::uint64_t communicator, const RankNames& names, Peers& peers, Failure& failure,
             SubmissionQueue& submissions, std::shared_ptr<KeptGoodbyes> kept, const Clock& clock,
             PeerEventListener& listener)
      : communicator_(communicator),
        names_(names),
        peers_(peers),
        failure_(failure),
        submissions_(submissions),
        kept_(std::move(kept)),
        clock_(clock),
        listener_(listener) {}

  void OnControl(Rank from, ControlMessage message) override;
  void OnPeerLost(Rank peer, Error error) override;
  void OnPeerEndedBefore(Rank peer, Error error) override;
  void OnTransportFailed(const Error& error) override { failure_.Begin(error); }

  // The number of goodbyes and progress reports that have arrived. Each of them may matter to the running operation.
  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

  // Looks for the kept goodbyes of peers that ended before they were connected. Blocks until the store has answered.
  // Returns whether there were such peers.
  bool AskForKeptGoodbyes();

 private:
  void OnHeartbeat(Rank from, const std::string& body);
  void OnGoodbye(Rank from, Goodbye goodbye);

  const std::uint64_t communicator_;
  const RankNames& names_;
  Peers& peers_;
  Failure& failure_;
  SubmissionQueue& submissions_;
  const std::shared_ptr<KeptGoodbyes> kept_;
  const Clock& clock_;
  PeerEventListener& listener_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace rondo
