// Sends and receives of a communicator: how they get from the threads that issue them to the message engine, and their
// results back. Unlike collectives they may be issued by any thread, so they are handed over under a lock; a blocking
// one lives on its caller's stack and allocates nothing.
//
// Thread rules stand at each group of methods.
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

// One send or receive, as the user calls it.
struct MessageRequest {
  bool sends = false;
  void* buffer = nullptr;  // of a send: only read
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
    Duration timeout{};             // of calls that name none
    std::uint32_t max_pending = 1;  // submitted and not final
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
  // Once, before the first call and before anything is advanced. The endpoint outlives all calls of the owner.
  void Open(const MessageEngineOptions& options, Endpoint& endpoint) {
    engine_ = std::make_unique<MessageEngine>(options, endpoint);
  }

  // ---- any thread ----
  Status Send(const MessageRequest& request);
  Result<Message> Receive(const MessageRequest& request);
  // Both at once.
  Result<Message> SendAndReceive(const MessageRequest& out, const MessageRequest& in);
  // Submits the call, which another thread may advance.
  Result<std::shared_ptr<MessageOperation>> Start(const MessageRequest& request);
  // kNotReady: it has not ended until then.
  Status WaitFor(MessageOperation& operation, TimePoint until);
  std::optional<Status> FinalStatus(const MessageOperation& operation) const;

  // Refuses all later calls with `error`, because this rank closes. Operations that were submitted before still end;
  // `receives`: also those that no message has come for. Once given up they stay so, whatever a later call says.
  void Close(Error error, PostedReceives receives) {
    if (receives == PostedReceives::kGivenUp) receives_in_close_.store(receives);
    submissions_.Close(std::move(error));
  }

  // Whether anything was ever submitted, or a peer has opened a lane of messages.
  bool in_use() const { return submissions_.in_use(); }
  // Submitted and not final.
  std::uint32_t pending() const { return submissions_.pending(); }
  // Something is submitted that the owner has not taken yet.
  bool is_waiting() const { return submissions_.is_waiting(); }
  SubmissionQueue& submissions() { return submissions_; }

  // ---- the owner ----
  // Starts what was submitted, polls, publishes what has ended. Whether anything moved. Unless a glance is due, lanes
  // are looked at only now and then while nothing is pending here.
  bool Advance(bool glance_is_due);
  // Whether messages that were just submitted go out before the endpoint is polled: their peers wait. Not always, for a
  // rank that sends again and again must poll as well.
  bool MayGoFirst() { return ++starts_ % kStartsPerEndpointPoll != 0; }
  // Nothing moves. Whether a message has come that is waited for, or will have in the next moment.
  bool Glance() { return engine_->Glance(); }
  // Nothing moves. Ends operations that need peers that have left. Whether any ended, or the communicator failed.
  bool EndDeparted();
  // The earliest deadline; it may be too early.
  TimePoint next_deadline() const { return engine_->next_deadline(); }
  // Ends what is late. Whether any operation ended, or the communicator failed.
  bool Expire(TimePoint now);
  void ExtendDeadlines(Duration by) { engine_->PutOffDeadlines(by); }
  // A peer that is needed, and whose lane is broken or ended.
  std::optional<MessageEngine::FailedLane> FindLaneFailure() const { return engine_->FindFailedLane(); }
  // kTimeout: what was started first has not ended within `whose` time. REQUIRES: something is pending.
  Error LateFor(std::string_view whose, Duration time) const { return engine_->LateFor(whose, time); }
  // Messages that came and that this rank has not received.
  std::size_t held() const { return engine_->held_messages(); }
  // Ends all operations with the cause of a failure, and refuses later ones. REQUIRES: the lanes have been revoked.
  void FailAll(const Error& cause);

 private:
  static constexpr std::uint32_t kStartsPerEndpointPoll = 8;

  // Checks what the call says and completes the operation.
  Status Prepare(MessageOperation& operation, const MessageRequest& request) const;
  // All of them or none.
  Status Submit(std::initializer_list<MessageOperation*> operations);
  // Publishes what has ended. Whether anything has.
  bool Settle();
  // Tells the engine which peers have left.
  void NoteGoodbyes();

  const Limits limits_;
  const Neighbours near_;
  SubmissionQueue submissions_;
  std::atomic<PostedReceives> receives_in_close_{PostedReceives::kStay};
  std::unique_ptr<MessageEngine> engine_;

  // The owner's.
  std::uint32_t glances_skipped_ = 0;
  std::uint32_t starts_ = 0;
  std::uint64_t events_seen_ = 0;  // of peer_events
};

}  // namespace rondo
