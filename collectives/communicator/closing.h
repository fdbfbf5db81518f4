// How a communicator closes: what was issued ends, and the ranks exchange goodbyes. A goodbye names the last operation
// of its rank, so ranks that disagree learn it in the end although no bytes flow any more.
//
//   Close    waits for what was issued, for the goodbyes of all connected peers, and for the failure of either
//   Leave    the same for a short time; what has not ended then is given up, and the goodbye goes out all the same
//
// Thread rule: any thread, except where a method says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/failure_detector.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/kept_goodbyes.h"
#include "collectives/communicator/messages.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/suspicion.h"

namespace rondo {

class Closing {
 public:
  // As CommunicatorOptions has them.
  struct Options {
    std::uint64_t id = 0;
    Duration timeout{};
    std::shared_ptr<KeptGoodbyes> kept_goodbyes = {};
    Logger* logger = nullptr;
  };
  // The parts of the communicator that it needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    const SharedEndpoint& endpoint;
    OperationQueue& queue;
    const CurrentOperation& current;
    Messages& messages;
    Peers& peers;
    Suspicion& suspicion;
    FailureDetector& detector;
    GraphWatch& graphs;
    ProgressLoop& progress;
    Failure& failure;
  };
  Closing(const Options& options, const Neighbours& neighbours) : options_(options), near_(neighbours) {}

  // As Communicator has them. The first call that ends decides what all return.
  Status Close() { return CloseWithin(options_.timeout); }
  Status Leave(Duration patience);
  // See Communicator::NoteRefusal.
  void NoteRefusal(std::string_view call);

  // Refuses new operations, waits until `until` for those that were issued, and exchanges goodbyes. kNotReady: they
  // have not ended, and no peer was notified of anything. `began`: for errors.
  Status ExchangeBy(TimePoint began, TimePoint until);
  // After ExchangeBy: leaves a goodbye behind, unless the communicator has failed, and ends the connections.
  void ShutDown(const Status& status);

  bool has_begun() const { return state_.load(std::memory_order_acquire) != State::kOpen; }
  // What Close or Leave has returned; nullopt: neither has.
  std::optional<Status> status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  enum class State : std::uint8_t {
    kOpen,
    kClosing,
    kLeaving,  // receives are given up, and late ranks are not waited for
  };

  bool is_leaving() const { return state_.load() == State::kLeaving; }
  Status CloseWithin(Duration time);
  // Between ExchangeBy and ShutDown: whether others know more; fails what was issued and has not ended in Close's time,
  // if there is any. False: it has ended just now.
  bool OthersReportFirst();
  bool FailWhatIsLeft(Duration time);
  Status WaitForIssued(TimePoint until);
  // The owner, again and again: sends a goodbye to all connected peers, also to those that have connected just now, as
  // soon as this rank may. Whether all goodbyes have been sent and received. Also if a peer shall get none, because it
  // did something else than this rank.
  bool ExchangeGoodbyes();
  bool SendGoodbyes();  // whether any was sent
  ControlMessage OwnGoodbye();
  // Keeps the goodbye for peers that connect after this process has ended.
  void KeepGoodbye(const ControlMessage& goodbye, const Status& status);
  // The call that this rank refused after operation `last`; "": none.
  std::string RefusedAfter(Sequence last) const;
  std::optional<Error> FindMismatchedGoodbye();
  std::optional<Error> FindPeerInLaterOperation();  // of rank 0 of an intranode group
  std::vector<Rank> PeersWithoutGoodbye() const { return near_.peers.WithoutGoodbye(near_.endpoint->ControlPeers()); }

  const Options options_;
  const Neighbours near_;
  std::atomic<State> state_{State::kOpen};
  mutable Mutex mutex_;
  Sequence refused_after_ RONDO_GUARDED_BY(mutex_) = 0;  // of refused_call_: the last operation issued before
  std::string refused_call_ RONDO_GUARDED_BY(mutex_);    // the last call that this rank refused, with the reason
  std::optional<Status> status_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
