// Sends and receives of a communicator: passes them from the threads that issue them to the message engine, and returns
// their results. Unlike collectives, they may be issued by any thread, so a lock guards the queue to the engine. A
// blocking call keeps its operation on the caller's stack and allocates nothing.
//
// Thread rules: see each group of methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/result.h"
#include "collectives/communicator/callbacks.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/peer_events.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/point_to_point/message.h"
#include "collectives/point_to_point/message_engine.h"
#include "collectives/point_to_point/operation.h"
#include "collectives/point_to_point/submission_queue.h"
#include "transport/transport.h"

namespace rondo {

// One send or receive, with the user's arguments.
struct MessageRequest {
  bool sends = false;
  void* buffer = nullptr;  // a send only reads this memory
  std::uint64_t count = 0;
  Rank peer = kNoRank;
  Tag tag = 0;
  DataType type = DataType::kUint8;
  std::optional<Duration> timeout = {};  // nullopt: the communicator's
};

class Messages {
 public:
  struct Limits {
    int world_size = 1;
    Duration timeout{};             // the timeout of calls that set none
    std::uint32_t max_pending = 1;  // the largest number of pending operations (see pending)
  };
  // The parts of the communicator that messages need. All of them outlive the messages.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    GraphWatch& graphs;
    const Peers& peers;
    const PeerEvents& peer_events;
    OperationRecords& records;
    ProgressLoop& progress;
    Callbacks& callbacks;
    Suspicion& suspicion;
    Failure& failure;
  };
  Messages(const Limits& limits, const Neighbours& neighbours)
      : limits_(limits), near_(neighbours), submissions_(limits.max_pending) {}
  // Call it once, before the first call and before anything is advanced. The endpoint must outlive all calls of the
  // owner's methods.
  void Open(const MessageEngineOptions& options, Endpoint& endpoint) {
    engine_ = std::make_unique<MessageEngine>(options, endpoint);
  }

  // ---- any thread ----
  Status Send(const MessageRequest& request);
  Result<Message> Receive(const MessageRequest& request);
  // Submits the send and the receive together, and waits for both.
  Result<Message> SendAndReceive(const MessageRequest& out, const MessageRequest& in);
  // Submits the call and returns; the progress thread or a waiting thread advances it.
  Result<std::shared_ptr<MessageOperation>> Start(const MessageRequest& request);
  // kNotReady: the operation has not ended by the time `until`.
  Status WaitFor(MessageOperation& operation, TimePoint until);
  std::optional<Status> FinalStatus(const MessageOperation& operation) const;

  // Refuses all later calls with `error`, because this rank closes. Operations that were submitted before still end. If
  // `receives` is kGivenUp, receives for which no message has arrived are ended, too. Later calls cannot undo kGivenUp.
  void Close(Error error, PostedReceives receives) {
    if (receives == PostedReceives::kGivenUp) receives_in_close_.store(receives);
    submissions_.Close(std::move(error));
  }

  // Whether anything was ever submitted, or a peer has opened its lane for messages.
  bool in_use() const { return submissions_.in_use(); }
  // The number of operations that were submitted, but whose results have not been published yet.
  std::uint32_t pending() const { return submissions_.pending(); }
  // Whether something was submitted that the owner has not yet taken from the queue.
  bool is_waiting() const { return submissions_.is_waiting(); }
  SubmissionQueue& submissions() { return submissions_; }

  // ---- the owner ----
  // Starts submitted operations, polls, and publishes results. Returns whether anything moved. If nothing is pending on
  // this rank, most calls do not check the lanes, unless `glance_is_due`.
  bool Advance(bool glance_is_due);
  // Whether the caller may send messages that were just submitted before it polls the endpoint. This helps the peers
  // that wait for these messages. Every kStartsPerEndpointPoll-th call returns false, so that a rank that always sends
  // also polls.
  bool MayGoFirst() { return ++starts_ % kStartsPerEndpointPoll != 0; }
  // Call it if nothing moves. Whether a message that this rank waits for has arrived, or may arrive very soon.
  bool Glance() { return engine_->Glance(); }
  // Call it if nothing moves. Ends operations that need a peer that has left. Returns true if any ended or
  // the communicator failed.
  bool EndDeparted();
  // The earliest deadline of a pending operation, or a time before that.
  TimePoint next_deadline() const { return engine_->next_deadline(); }
  // Ends operations whose deadline has passed. Returns true if any ended or the communicator failed.
  bool Expire(TimePoint now);
  // Gives every pending operation as much more time as it was pending between `begin` and `end`.
  void ExtendDeadlines(TimePoint begin, TimePoint end);
  // Finds a peer that an operation needs, but whose lane has failed or ended.
  std::optional<MessageEngine::FailedLane> FindLaneFailure() const { return engine_->FindFailedLane(); }
  // Returns kTimeout: the oldest pending operation has not ended within the timeout `time`. `whose` names the owner of
  // the timeout in the text ("Close's "). REQUIRES: something is pending.
  Error LateFor(std::string_view whose, Duration time) const { return engine_->LateFor(whose, time); }
  // The number of messages that have arrived, but that no receive of this rank has taken yet.
  std::size_t held() const { return engine_->held_messages(); }
  // Ends all operations with `cause`, and refuses later ones. REQUIRES: the lanes have been revoked.
  void FailAll(const Error& cause);

 private:
  static constexpr std::uint32_t kStartsPerEndpointPoll = 8;

  // Checks the arguments, and fills in the operation.
  Status Prepare(MessageOperation& operation, const MessageRequest& request) const;
  // Submits all of the operations or none.
  Status Submit(std::initializer_list<MessageOperation*> operations);
  // Starts the submitted operations. Returns whether there were any.
  bool StartSubmitted();
  // Publishes the results of operations that have ended. Returns whether there were any.
  bool Settle();
  // Notifies the engine of peers that have left.
  void NoteGoodbyes();

  const Limits limits_;
  const Neighbours near_;
  SubmissionQueue submissions_;
  std::atomic<PostedReceives> receives_in_close_{PostedReceives::kStay};
  std::unique_ptr<MessageEngine> engine_;

  // Only the owner uses the members from here on.
  std::uint32_t glances_skipped_ = 0;
  std::uint32_t starts_ = 0;
  std::uint64_t events_seen_ = 0;  // peer_events.count() at the latest NoteGoodbyes
};

}  // namespace rondo
