// What peers send on their control connections, and what becomes of them: each event goes to whom it concerns.
//
// Thread rules: what a PeerObserver does the threads of the transport, one at a time; AskForKeptGoodbyes the owner;
// count() any thread.
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

// A communicator, as PeerEvents calls it. Any thread.
class PeerEventListener {
 public:
  // Something has arrived that the owner should look at, wherever it waits.
  virtual void WakeOwner() = 0;
  // Of a group: fails it for the cause of its parent, if that has failed and nothing shows yet that all ranks have the
  // group. Whether it did.
  virtual bool AdoptParentFailure() = 0;
  // Whether it is a group, and nothing shows yet that all ranks have it.
  virtual bool IsNewGroup() const = 0;

 protected:
  ~PeerEventListener() = default;
};

class PeerEvents final : public PeerObserver {
 public:
  // All references outlive it. `communicator`: its id (CommunicatorOptions); no kept goodbyes: a peer that ended before
  // it was connected is lost.
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

  // How many goodbyes and progress reports have arrived, each of which may concern the running operation.
  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

  // Asks the kept goodbyes for peers that had ended before they were connected, and blocks for it. Whether there were
  // any.
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
