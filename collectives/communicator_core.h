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
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "collectives/communicator.h"
#include "collectives/communicator/callbacks.h"
#include "collectives/communicator/closing.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/device_operations.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/failure_detector.h"
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
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/stream_guard.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/communicator/waiter.h"
#include "collectives/engine/operation_request.h"
#include "collectives/recorder/dump.h"
#include "collectives/recorder/flight_recorder.h"

namespace rondo {

class CommunicatorCore;

// The name of a communicator in its job, and its ranks there. The same on all its ranks.
struct GroupName {
  std::string name = "0";
  std::string description = "default_pg";       // c10d's word for the group of all ranks
  std::vector<Rank> ranks = {};                 // of the job, by rank of the group; empty: these are the same
  std::weak_ptr<CommunicatorCore> parent = {};  // that it was split from
};

class CommunicatorCore final : public FailureListener,
                               public PeerEventListener,
                               public FailureDetectorListener,
                               public OperationIssuer,
                               public ProgressSource,
                               public std::enable_shared_from_this<CommunicatorCore> {
 public:
  static Result<std::shared_ptr<CommunicatorCore>> Create(CommunicatorOptions options, GroupName group = {});
  ~CommunicatorCore();

  const CommunicatorOptions& options() const { return options_; }
  Rank rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(options_.peers.size()); }

  const RankNames& names() const { return names_; }

  // ---- issuing ----
  const RequestChecker& checker() const { return checker_; }
  // Puts the operation into the queue; if its results are to be compared, puts the comparison behind it. Returns the
  // number of the last one. `at_once`: runs the operation to its end in this call if nothing keeps it waiting.
  // kInvalidArgument: a second thread issues. kResource: the queue is full. After a failure: its first cause. kClosed:
  // after Close.
  Result<Sequence> Issue(const OperationRequest& request, bool at_once = false);
  // Checks the request, prepares what memory on devices needs, and issues it.
  Result<Sequence> Take(OperationRequest& request, const OperationOptions& options, bool at_once);
  // Issue and wait, without a Work.
  Status Run(OperationRequest&& request, const OperationOptions& options);
  Work RunAsync(OperationRequest&& request, const OperationOptions& options);

  // ---- messages: any thread ----
  Messages& messages() { return messages_; }
  Work StartMessage(const MessageRequest& request);

  // ---- waiting: any thread ----
  Status WaitFor(Sequence sequence, TimePoint until) override;
  Status WaitForGood(Sequence sequence);
  std::optional<Status> FinalStatus(Sequence sequence) const;
  // Calls `done` with the final status of `message`; if that is null, of the collective with that number.
  void Then(Sequence sequence, std::shared_ptr<MessageOperation> message, std::function<void(const Status&)> done);
  bool ProgressOnce();

  // ---- ending: any thread ----
  void Abort(std::string_view reason);
  Closing& closing() { return closing_; }
  // Ends everything at once; for ~Communicator.
  void Destroy();
  // False in a child process that was forked after Create.
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
  void OnFailing() override { device_.EndGraphs(); }  // a queue that is made just now: see EndAfterFailure
  void OnFailed() override { WakeOwner(); }

  // FailureDetectorListener: AdoptParentFailure, by the owner; while this group is new, what the parent's ranks have
  // sent is polled first.
  bool CheckParentFailure() override;

  // PeerEventListener
  void WakeOwner() override {
    if (endpoint_.Try([](Endpoint& endpoint) { endpoint.Wake(); })) progress_.lock().Announce();
  }
  bool AdoptParentFailure() override;
  bool IsNewGroup() const override;

  // OperationIssuer
  Status MayIssue() override;
  Result<Sequence> IssueChecked(const OperationRequest& request) override { return Issue(request); }

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
  // Begins the operation issued last, a short one on the shared segment, and goes on with it for a moment. Whether it
  // has ended. REQUIRES: ownership, MayRunAtOnce before it was issued.
  bool RunAtOnce();
  // Starts the current operation. False: not yet.
  Result<bool> StartNext();
  bool StartAndPoll();
  bool MayRunAtOnce(const OperationRequest& request);
  void EndAfterFailure() noexcept;
  // Any thread: takes in what others have said. Does nothing where another thread drives.
  void Hear();
  // Issuer: the all_gather that compares the results of `of`, right behind it.
  void IssueComparison(OperationQueue::Operation& of);
  // Issuer: when the operation was issued, and what follows from it.
  void NoteIssue(OperationQueue::Operation& pending);
  // Issuer: the error that a call which was not issued returns; the goodbye will name the call.
  Error WhyRefused(Collective collective, const Error& found);
  // Into options.record_dir, if there is one; where that fails the log hears of it.
  void WriteRecordsOfFailure() const;
  DumpedGroup RecordsOfGroup() const;
  void AddRecords(std::vector<DumpedGroup>& groups) const;
  DumpOrigin Origin(std::string_view reason) const;

  // The progress thread, made when first needed, has something new to do.
  void CallProgressThread();

  void AbortChildren(std::string_view reason);
  Result<std::unique_ptr<Communicator>> RebuildBy(const RebuildOptions& options, TimePoint deadline);
  std::vector<Rank> LostPeers() const;  // that died, as far as is known here

  const int process_ = getpid();
  CommunicatorOptions options_;
  GroupName group_;
  ChildGroups<CommunicatorCore> children_;
  std::shared_ptr<const Clock> clock_;
  std::shared_ptr<Waiter> waiter_;
  const RankNames names_;

  // Owner's.
  SharedEndpoint endpoint_;
  DeviceAccess device_;
  CurrentOperation current_;
  std::uint32_t segment_polls_ = 0;
  Suspicion suspicion_;

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
  FailureDetector detector_;
  Closing closing_;
  StreamGuard streams_;
  DeviceOperations devices_;
  std::atomic<bool> rebuilding_{false};  // a Rebuild is under way, or was successful

  mutable std::mutex dump_mutex_;  // one file is written at a time; taken before all other locks

  // Issuer's.
  std::uint64_t splits_ = 0;
};

}  // namespace rondo
