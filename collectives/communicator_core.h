// What a Communicator is inside: the queue of issued operations, the engine, the endpoint, and who drives them.
//
// Shared by the Communicator and the Works it gave out. Thread rule per method: "owner" methods need the progress lock,
// "issuer" methods belong to the one thread that issues, all others may be called by any thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "collectives/communicator.h"
#include "collectives/communicator/callbacks.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/groups.h"
#include "collectives/communicator/messages.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/peer_events.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/request_checker.h"
#include "collectives/communicator/runner.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/communicator/user_operation_mover.h"
#include "collectives/communicator/waiter.h"
#include "collectives/communicator/wide_partials.h"
#include "collectives/device/reading_mover.h"
#include "collectives/device/registrations.h"
#include "collectives/device/staging.h"
#include "collectives/device/stream_watch.h"
#include "collectives/engine/mover.h"
#include "collectives/engine/operation_request.h"
#include "collectives/engine/plan.h"
#include "collectives/recorder/dump.h"
#include "collectives/recorder/flight_recorder.h"

namespace rondo {

class CommunicatorCore;

// What a communicator is among those of its job, and how it is called there, the same on all its ranks.
struct GroupName {
  std::string name = "0";
  std::string description = "default_pg";       // c10d's word for the group of all ranks
  std::vector<Rank> ranks = {};                 // of the job, by rank of the group; empty: these are the same
  std::weak_ptr<CommunicatorCore> parent = {};  // that it was split from
};

class CommunicatorCore final : public FailureListener,
                               public PeerEventListener,
                               public WatchedStreams,
                               public ProgressSource,
                               public std::enable_shared_from_this<CommunicatorCore> {
 public:
  static Result<std::shared_ptr<CommunicatorCore>> Create(CommunicatorOptions options, GroupName group = {});
  ~CommunicatorCore() override;

  const CommunicatorOptions& options() const { return options_; }
  Rank rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(options_.peers.size()); }

  const RankNames& names() const { return names_; }

  // ---- issuing ----
  const RequestChecker& checker() const { return checker_; }
  // Puts the operation into the queue, with the comparison of its results behind it where it is to be compared, and
  // gives the number of the last; `at_once`: runs it to its end instead, if nobody keeps it
  // waiting. kInvalidArgument for a second issuing thread; kResource when the queue is full; the first cause once
  // failed; kClosed after Close.
  Result<Sequence> Issue(const OperationRequest& request, bool at_once = false);
  // Check, what memory of devices needs, and Issue.
  Result<Sequence> Take(OperationRequest& request, const OperationOptions& options, bool at_once);
  // Issue and wait, without a Work.
  Status Run(OperationRequest&& request, const OperationOptions& options);
  Work RunAsync(OperationRequest&& request, const OperationOptions& options);

  // ---- messages: any thread ----
  Messages& messages() { return messages_; }
  Work StartMessage(const MessageRequest& request);

  // ---- waiting: any thread ----
  Status WaitFor(Sequence sequence, TimePoint until);
  Status WaitForGood(Sequence sequence);
  std::optional<Status> FinalStatus(Sequence sequence) const;
  // Of a message where there is one, else of the collective of that number.
  void Then(Sequence sequence, std::shared_ptr<MessageOperation> message, std::function<void(const Status&)> done);
  bool ProgressOnce();

  // ---- ending: any thread ----
  void Abort(std::string_view reason);
  // See Communicator::NoteRefusal.
  void NoteRefusal(std::string_view call);
  Status Close();
  // See Communicator::Leave.
  Status Leave(Duration patience);
  // Ends everything at once; for ~Communicator.
  void Destroy();
  // Not in a child that was forked since.
  bool IsInItsProcess() const;

  // Ends this one; gives the next generation's (rebuild.cc).
  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildOptions& options);

  // ---- the rest ----
  Result<ReduceOp> DefineOperation(UserOperation operation);                                     // issuer
  Result<std::unique_ptr<Communicator>> Split(int color, int key, const GroupOptions& options);  // issuer
  std::optional<Error> failure() const { return failure_.cause(); }
  GraphWatch& graphs() { return graphs_; }
  std::string Transports() const;
  std::string DescribePath(Rank peer) const;
  std::string DescribePaths() const;
  const PeerIdentity& peer(Rank rank) const { return options_.peers[static_cast<std::size_t>(rank)]; }
  PeerPath PathTo(Rank peer) const;
  TimePoint Now() const { return clock_->Now(); }

  // ---- records (communicator_record.cc): any thread ----
  std::string DumpRecords(std::string_view reason) const;
  Result<std::string> WriteRecords(std::string_view reason) const;

 private:
  CommunicatorCore(CommunicatorOptions options, GroupName group);
  // Create, where the options are sound.
  static Result<std::shared_ptr<CommunicatorCore>> Make(CommunicatorOptions&& options, GroupName&& group);
  static Status CheckRails(std::int64_t rails, std::int64_t first_rail);
  Result<ReduceOp> Define(UserOperation&& operation);
  Result<std::unique_ptr<Communicator>> SplitBy(const SplitRequest& own);
  void FailNewestChild();  // for the reason that this one has failed
  // `table`: of each rank here.
  Result<std::unique_ptr<Communicator>> MakeGroup(const SplitRequest& own, const std::vector<SplitRequest>& table);

  // FailureListener
  void OnFailing() override;
  void OnFailed() override { WakeOwner(); }

  // PeerEventListener
  void WakeOwner() override {
    if (endpoint_.Try([](Endpoint& endpoint) { endpoint.Wake(); })) progress_.lock().Announce();
  }
  bool AdoptParentFailure() override;
  bool IsNewGroup() const override;

  // WatchedStreams (communicator_streams.cc)
  Sequence completed() const override { return queue_.completed(); }
  std::uint64_t looks() const override { return looks_.load(); }
  bool is_driven() const override { return progress_.lock().IsHeld(); }
  bool has_failed() const override { return failure_.has_failed(); }
  bool is_ending() const override { return failure_.state() >= Failure::State::kEnding; }
  bool has_ended() const override { return failure_.has_ended(); }
  void OnHeldUp(Sequence operation, Duration time) override;
  void OnLate(Sequence operation, bool is_held_up) override;
  void LetStreamsGo() override;

  // ProgressSource: starts, polls and completes operations; ends everything once failed.
  Advanced Advance() override;
  bool Glance() override;
  bool CheckWhileBlocked(TimePoint now, Sequence waited) override;
  void CheckWhileMoving(TimePoint now, Sequence waited) override;
  void OnPause(Duration pause) override;
  BeforeSleep PrepareToSleep() override;
  bool Arm() override;
  void Disarm() override;
  TimePoint WakeTime(TimePoint now) override;
  void Sleep(int kick_fd, TimePoint until) override;
  bool HasWorkSince(Sequence issued) const override;
  Sequence issued() const override { return queue_.issued(); }
  bool HasEnded(Sequence last) const override;
  bool HasWork() const override;
  void RunCallbacks() override;

  bool AdvanceOperations();
  // False: not yet, the board is coming to be.
  Result<bool> StartNext();
  // Whether an operation has been started and has not ended.
  bool IsRunning() const { return runner_->running() || staging_.running(); }
  // Or the one that ran last.
  const OperationDescriptor& RunningOperation() const {
    return staging_.running() ? staging_.operation() : runner_->operation();
  }
  Result<Progress> PollCurrent();
  // An operation on devices: where ranks share a host and their devices reach each other's memory, by these; else, or
  // where that is declined, by way of the host.
  Result<Progress> PollOnDevices();
  Result<Progress> PollStaged();
  bool MayRunOnDevices(const OperationRequest& request) const;
  // Whether devices take turns, as soon as that is known.
  void NoteTurns();
  // Whether all that this rank brings to an operation is sent from where it lies, on the device, and that can be done.
  // Each rank decides for itself: nobody sees from where bytes come.
  Result<bool> MayLeaveInput(const OperationRequest& request);
  Result<OperationBuffers> BuffersOf(const OperationRequest& request);
  static OperationBuffers UserBuffersOf(const OperationRequest& request, bool in_place);
  void StartOnDevices(const OperationRequest& request);
  // Lives until the next is asked for.
  Result<const Plan*> PlanOf(const OperationRequest& request, bool in_place);
  // Hands an operation, or a window of one, to the runner; what is to be done when it has run.
  Status Begin(const OperationRequest& request);
  void End(const OperationRequest& request);
  // Begins the operation issued last, a short one on the board, and goes on with it for a moment. Whether it has ended.
  // REQUIRES: ownership, MayRunAtOnce before it was issued.
  bool RunAtOnce();
  bool StartAndPoll();
  bool MayRunAtOnce(const OperationRequest& request);
  Result<bool> SettleBoard();
  Status Settle(OperationRequest& request) const;
  bool IsSettlingBoard() const { return !board_settled_ && board_ != nullptr; }
  void CompleteCurrent();
  // kCorrupt: the current operation has gathered the checksums of results, and they differ. None such runs at once.
  Status CompareResults();
  void EndAfterFailure() noexcept;
  // Owner, when nothing moves: hands suspicion_ what it sees of peers, lanes and deadlines. True if it found a failure.
  bool CheckForFailure(TimePoint now, Sequence waited);
  bool CheckAll(TimePoint now, Sequence waited);
  bool CheckPeers();
  // What peers are compared with; nullopt: no operation runs, nor waits for the intranode group.
  std::optional<OwnOperation> OwnNow();
  std::optional<LaneFailure> FindLaneFailure();
  // Owner: the peers that the running operation is blocked on, or those that have not joined the board yet.
  std::vector<BlockedOn> BlockedPeers() const;
  // AdoptParentFailure, by the owner; while this group is new, what the parent's ranks have said is heard first.
  bool CheckParentFailure();
  // Any thread: takes in what others have said. Does nothing where another thread drives.
  void Hear();
  bool CheckDeadlines(TimePoint now, Sequence waited);
  bool CheckClock(TimePoint now, Sequence waited);
  LateOperation LateAt(const OperationQueue::Operation& operation) const;
  // Issuer: the all_gather that compares the results of `of`, right behind it.
  void IssueComparison(OperationQueue::Operation& of);
  TimePoint DeadlineOf(Sequence sequence);
  // Issuer: kClosed after Close, the first cause once failed.
  Status MayIssue();
  // Issuer: when the operation was issued, and what follows from it.
  void NoteIssue(OperationQueue::Operation& pending);
  // Issuer: the error that a call which was not issued returns; the goodbye will name the call.
  Error WhyRefused(Collective collective, const Error& found);
  // Issuer, of operations on memory of devices (communicator_devices.cc): all of Issue, and what it needs: the way to
  // the device and staging memory, made when they are first needed.
  Result<Sequence> IssueOnDevice(OperationRequest& request);
  Status OpenDevice(const OperationRequest& request);
  Status PrepareStaging(OperationRequest& request);
  Status GrowStaging(const OperationRequest& request);
  // Issuer (communicator_streams.cc): makes stream_watch_; tells it of an operation.
  Status WatchStreams();
  void Watch(const OperationQueue::Operation& pending);
  // Issuer, of operations on a stream that is captured (communicator_graphs.cc): all of Issue, and of what follows.
  Result<Sequence> IssueIntoGraph(OperationRequest& request);
  Status PrepareForGraph(OperationRequest& request);
  Status WriteProgramOfOne(const OperationRequest& request);
  bool AdaptersKnow(const OperationRequest& request, bool idle);

  // Into options.record_dir, if there is one; where that fails the log hears of it.
  void WriteRecordsOfFailure() const;
  DumpedGroup RecordsOfGroup() const;
  void AddRecords(std::vector<DumpedGroup>& groups) const;
  DumpOrigin Origin(std::string_view reason) const;

  // The progress thread, made when first needed, has something new to do.
  void CallProgressThread();

  // What the engine has found, with the operation in which it did: ranks that are in another one by now name it, too.
  Error InOperation(const Error& found) const;
  // Where a device has failed under this rank, with its name and this rank's.
  Error OnDevice(const Error& found) const;
  // Owner, in Close, again and again: sends a goodbye to all connected peers, also to those that connected only now, as
  // soon as this rank may. Whether all goodbyes have been sent and received. Also if a peer shall get none, because it
  // did something else than this rank.
  bool ExchangeGoodbyes();
  bool SendGoodbyes();  // whether any was sent
  ControlMessage OwnGoodbye();
  // Keeps the goodbye for peers that connect after this process has ended. `status` is Close's.
  void KeepGoodbye(const ControlMessage& goodbye, const Status& status);
  // Close and Leave, with the time that they have.
  Status CloseWithin(Duration time);
  // The two halves of Close: the meeting (kNotReady: what was issued has not ended, and nobody was told anything), and
  // the end, which leaves `status` behind.
  Status PartBy(TimePoint began, TimePoint until);
  // Between them: whether others know more; fails what was issued and has not ended in Close's time, if there is any.
  bool OthersSpeakFirst();
  bool FailWhatIsLeft(Duration time);
  void ShutDown(const Status& status);
  void AbortChildren(std::string_view reason);
  Result<std::unique_ptr<Communicator>> RebuildBy(const RebuildOptions& options, TimePoint deadline);
  std::vector<Rank> LostPeers() const;  // that died, as far as is known here
  void SendProgressReports();
  // The call that this rank refused after operation `last`; "": none.
  std::string RefusedAfter(Sequence last) const;
  std::optional<Error> FindMismatchedGoodbye();
  std::optional<Error> FindPeerInLaterOperation();  // of rank 0 on a board, in Close
  std::vector<Rank> PeersWithoutGoodbye() const { return peers_.WithoutGoodbye(endpoint_->ControlPeers()); }

  const int process_ = getpid();
  CommunicatorOptions options_;
  GroupName group_;
  ChildGroups<CommunicatorCore> children_;
  std::shared_ptr<const Clock> clock_;
  std::shared_ptr<Waiter> waiter_;
  const RankNames names_;

  // Owner's.
  std::vector<std::unique_ptr<UserOperationMover>> movers_;  // by rail
  std::vector<DeviceReadingMover*> reading_movers_;          // within those, where memory of devices may be sent
  SharedEndpoint endpoint_;
  std::unique_ptr<Runner> runner_;
  Board* board_ = nullptr;     // the endpoint's, once it was asked for
  bool board_settled_ = true;  // there is none, or the runner has it
  PlanCache plans_;
  WidePartials wide_partials_;
  const StagingWindows windows_;
  Staging staging_;
  enum class OnDevices : std::uint8_t { kUntried, kRunning, kDeclined, kStaged } on_devices_ = OnDevices::kUntried;
  enum class DeviceWay : std::uint8_t { kNone, kHost, kAdapters, kPeers };
  std::atomic<bool> devices_take_turns_{false};
  std::atomic<DeviceWay> device_way_{DeviceWay::kNone};  // that the last operation on devices went; for DescribePaths
  std::uint32_t board_polls_ = 0;
  std::atomic<std::uint64_t> looks_{0};  // counts whenever operations are to be advanced, for stream_watch_
  Suspicion suspicion_;
  std::uint64_t events_seen_ = 0;  // of peer_events_

  Callbacks callbacks_;
  ProgressLoop progress_;
  RequestChecker checker_;
  OperationQueue queue_;
  OperationRecords records_{queue_, progress_};
  Peers peers_;
  Failure failure_;
  GraphWatch graphs_;
  Messages messages_;
  PeerEvents peer_events_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> leaving_{false};     // by Leave: receives are given up, and late ranks are not waited for
  std::atomic<bool> rebuilding_{false};  // a Rebuild is under way, or was successful

  mutable std::mutex dump_mutex_;  // one file is written at a time; taken before all other locks

  mutable std::mutex mutex_;    // guards what follows
  Sequence refused_after_ = 0;  // of refused_call_: the last operation issued before
  std::string refused_call_;    // the last call that this rank refused, with the reason
  std::optional<Status> close_status_;

  // Issuer's; the owner has them by what was issued. Whoever ends everything looks for the queue after the failure is
  // known, and who issues for a failure after the queue is: so one of the two sees to it that no stream waits for good.
  std::unique_ptr<DeviceQueue> device_queue_;
  std::atomic<DeviceQueue*> device_queue_seen_{nullptr};
  std::unique_ptr<StreamWatch> stream_watch_;  // from the first operation on that streams wait for
  std::thread teller_;                         // stream_watch_'s: says what it must not wait to have said
  std::atomic<bool> teller_speaks_{false};
  std::unique_ptr<StagingMemory> staging_memory_;
  DeviceProgram program_;  // of the operation that is captured now
  std::unique_ptr<DeviceRegistrations> device_registrations_;
  bool said_why_staged_ = false;

  // Issuer's.
  std::uint64_t splits_ = 0;
};

}  // namespace rondo
