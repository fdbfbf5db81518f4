// The implementation behind a Communicator. It makes the parts of collectives/communicator/, connects them, and ends
// them. It also implements what concerns several communicators: groups, rebuilding, records.
//
// The Communicator and its Works share it. Thread rule: any thread; methods marked "issuer" may only be called by the
// one thread that issues.
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

// The name of a communicator in the job, and the numbers of its ranks in the job. Equal on all these ranks.
struct GroupName {
  std::string name = "0";
  std::string description = "default_pg";  // c10d's name for the group of all ranks
  std::vector<Rank> ranks = {};  // ranks in the job, indexed by rank in the group; Create fills an empty vector
  std::weak_ptr<CommunicatorCore> parent = {};  // the communicator from which this group was split
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
  // Issues an operation, which another thread may advance.
  Work RunAsync(OperationRequest&& request, const OperationOptions& options);

  // ---- messages: any thread ----
  Messages& messages() { return messages_; }
  Work StartMessage(const MessageRequest& request);

  // ---- ending: any thread ----
  void Abort(std::string_view reason);
  Closing& closing() { return closing_; }
  // Ends everything at once. ~Communicator calls this.
  void Destroy();
  // False in a child process that was forked after Create.
  bool IsInItsProcess() const;

  // Ends this communicator and makes the communicator of the next generation (rebuild.cc).
  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildOptions& options);

  // ---- other methods of Communicator ----
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
  // Does what Create does after it has checked the options.
  static Result<std::shared_ptr<CommunicatorCore>> Make(CommunicatorOptions&& options, GroupName&& group);
  static Status CheckRails(std::int64_t rails, std::int64_t first_rail);
  Result<ReduceOp> Define(UserOperation&& operation);
  Result<std::unique_ptr<Communicator>> SplitBy(const SplitRequest& own);
  void FailNewestChild();  // fails the newest child with this communicator's cause
  // `table`: the requests of all ranks.
  Result<std::unique_ptr<Communicator>> MakeGroup(const SplitRequest& own, const std::vector<SplitRequest>& table);

  // Implements FailureListener: ends launched graphs. If the device queue is being made at this moment,
  // OperationProgress::EndAfterFailure ends its graphs instead.
  void OnFailing() override { device_.EndGraphs(); }
  void OnFailed() override { WakeOwner(); }

  // Implements FailureDetectorListener. The owner calls it. Adopts the parent's failure. If this group is new, first
  // polls for what the parent's peers have sent.
  bool CheckParentFailure() override;

  // Implements OperationProgressListener: writes the records into options.record_dir, if it is set.
  void OnEnded() noexcept override;

  // Implements PeerEventListener.
  void WakeOwner() override {
    if (endpoint_.Try([](Endpoint& endpoint) { endpoint.Wake(); })) progress_.lock().Announce();
  }
  bool AdoptParentFailure() override;
  bool IsNewGroup() const override;

  RecordWriter::Group NameInRecords() const { return {group_.name, group_.description, group_.ranks}; }
  // The records of this communicator, and of the groups that were split from it.
  std::vector<DumpedGroup> Records() const;
  // Polls for what peers have sent, unless another thread advances this communicator.
  void PollForNotices();

  // Wakes the progress thread for new work; makes it if there is none yet.
  void CallProgressThread();

  void AbortChildren(std::string_view reason);
  Result<std::unique_ptr<Communicator>> RebuildBy(const RebuildOptions& options, TimePoint deadline);
  std::vector<Rank> LostPeers() const;  // peers found dead so far

  const int process_ = getpid();
  CommunicatorOptions options_;
  GroupName group_;
  ChildGroups<CommunicatorCore> children_;
  std::shared_ptr<const Clock> clock_;
  std::shared_ptr<Waiter> waiter_;
  const RankNames names_;

  // Only the owner uses the members from here to suspicion_.
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
  std::atomic<bool> rebuilding_{false};  // a Rebuild is running, or has succeeded

  // Used by the issuer only.
  std::uint64_t splits_ = 0;
};

}  // namespace rondo
