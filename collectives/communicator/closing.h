// Closes a communicator: issued operations end, and the ranks exchange goodbyes. A goodbye names the last operation
// that its rank completed. So ranks whose last operations differ detect the difference at the end, even if no more
// bytes move.
//
//   Close    waits until all operations have ended and all connected peers have sent goodbyes, or until a failure
//   Leave    does the same for a short time, then gives up what has not ended, and sends the goodbye in any case
//
// Thread rule: any thread, unless a method says otherwise.
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
  // The fields mean the same as in CommunicatorOptions.
  struct Options {
    std::uint64_t id = 0;
    Duration timeout{};
    std::shared_ptr<KeptGoodbyes> kept_goodbyes = {};
    Logger* logger = nullptr;
  };
  // The parts of the communicator that Closing needs. All of them outlive it.
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

  // See Communicator::Close and Leave. The first call that ends decides what all calls return.
  Status Close() { return CloseWithin(options_.timeout); }
  Status Leave(Duration patience);
  // See Communicator::NoteRefusal.
  void NoteRefusal(std::string_view call);

  // Refuses new operations, waits until `until` for the issued ones, and exchanges goodbyes. kNotReady: operations have
  // not ended, and no peer was notified. `began`: when the call began, for error messages.
  Status ExchangeBy(TimePoint began, TimePoint& until);
  // Leaves a goodbye for peers that connect later, unless the communicator has failed, and then ends the connections.
  // Must be called after ExchangeBy.
  void ShutDown(const Status& status);

  bool has_begun() const { return state_.load(std::memory_order_acquire) != State::kOpen; }
  // The status that Close or Leave has returned; nullopt: neither has returned yet.
  std::optional<Status> status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  enum class State : std::uint8_t {
    kOpen,
    kClosing,
    kLeaving,  // gives up receives, and does not wait for late ranks
  };

  bool is_leaving() const { return state_.load() == State::kLeaving; }
  Status CloseWithin(Duration time);
  // OthersReportFirst and FailWhatIsLeft are called between ExchangeBy and ShutDown. OthersReportFirst returns whether
  // this rank leaves the report of a timeout to other ranks. FailWhatIsLeft fails the operations that have not ended
  // within Close's time; it returns false if there are none.
  bool OthersReportFirst();
  bool FailWhatIsLeft(Duration time);
  Status WaitForIssued(TimePoint& until);
  // The owner calls it repeatedly. As soon as this rank may send its goodbye, sends it to every connected peer that has
  // not got it yet. Returns true when the exchange is over: all goodbyes have been sent and received, or a peer was in
  // a different operation and must therefore get no goodbye.
  bool ExchangeGoodbyes();
  bool SendGoodbyes();  // returns whether it sent a goodbye
  ControlMessage OwnGoodbye();
  // Keeps the goodbye for peers that only connect after this process has ended.
  void KeepGoodbye(const ControlMessage& goodbye, const Status& status);
  // The call that this rank refused after the operation with the sequence number `last`; "": it refused none.
  std::string RefusedAfter(Sequence last) const;
  std::optional<Error> FindMismatchedGoodbye();
  std::optional<Error> FindPeerInLaterOperation();  // only rank 0 of an intranode group calls it
  std::vector<Rank> PeersWithoutGoodbye() const { return near_.peers.WithoutGoodbye(near_.endpoint->ControlPeers()); }

  const Options options_;
  const Neighbours near_;
  std::atomic<State> state_{State::kOpen};
  mutable Mutex mutex_;
  Sequence refused_after_ RONDO_GUARDED_BY(mutex_) = 0;  // the last operation that was issued before refused_call_
  std::string refused_call_ RONDO_GUARDED_BY(mutex_);    // the last call that this rank refused, and why
  std::optional<Status> status_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
