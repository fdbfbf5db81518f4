// What a Communicator is inside: it makes the parts of collectives/communicator/, connects them, and ends them. It also
// has what concerns several communicators: groups, rebuilding, records.
//
// Shared by the Communicator and the Works it gave out. Thread rule: any thread; "issuer" methods belong to the one
// thread that issues.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
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
#include "collectives/communicator/issuer.h"
#include "collectives/communicator/messages.h"
#include "collectives/communicator/operation_progress.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/peer_events.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/record_writer.h"
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
                               public OperationProgressListener,
                               public std::enable_shared_from_this<CommunicatorCore> {
 public:
  static Result<std::shared_ptr<CommunicatorCore>> Create(CommunicatorOptions options, GroupName group = {});
  ~CommunicatorCore();

  const CommunicatorOptions& options() const { return options_; }
  Rank rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(options_.peers.size()); }

  const RankNames& names() const { return names_; }

  // ---- operations ----
  const RequestChecker& checker() const { return checker_; }
  Issuer& issuer() { return issuer_; }
  OperationProgress& operation_progress() { return operation_progress_; }
  // Issues the operation, which another thread may advance.
  Work RunAsync(OperationRequest&& request, const OperationOptions& options);

  // ---- messages: any thread ----
  Messages& messages() { return messages_; }
  Work StartMessage(const MessageRequest& request);

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

  // ---- records (communicator_record.cc) ----
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
  void OnFailing() override { device_.EndGraphs(); }  // a queue made just now: see OperationProgress::EndAfterFailure
  void OnFailed() override { WakeOwner(); }

  // FailureDetectorListener: AdoptParentFailure, by the owner; while this group is new, what the parent's ranks have
  // sent is polled first.
  bool CheckParentFailure() override;

  // OperationProgressListener: writes the records into options.record_dir, if there is one.
  void OnEnded() noexcept override;

  // PeerEventListener
  void WakeOwner() override {
    if (endpoint_.Try([](Endpoint& endpoint) { endpoint.Wake(); })) progress_.lock().Announce();
  }
  bool AdoptParentFailure() override;
  bool IsNewGroup() const override;

  RecordWriter::Group NameInRecords() const { return {group_.name, group_.description, group_.ranks}; }
  // Of this communicator, and of the groups that were split from it.
  std::vector<DumpedGroup> Records() const;
  // Does nothing if another thread drives; otherwise polls for what peers have sent.
  void Hear();

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
  OperationProgress operation_progress_;
  Issuer issuer_;
  RecordWriter record_writer_;
  std::atomic<bool> rebuilding_{false};  // a Rebuild is under way, or was successful

  // Issuer's.
  std::uint64_t splits_ = 0;
};

}  // namespace rondo
