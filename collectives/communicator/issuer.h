// Issues the collectives of a communicator: checks a call, assigns the next sequence number, and puts the operation
// into the queue. A short operation on the shared segment runs to its end in the same call.
//
// Thread rule: the one thread that issues.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/communicator/closing.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/device_operations.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/operation_options.h"
#include "collectives/communicator/operation_progress.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/request_checker.h"
#include "collectives/communicator/stream_guard.h"
#include "collectives/engine/operation_request.h"

namespace rondo {

class Issuer final : public OperationIssuer {
 public:
  // The parts of the communicator that the issuer needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    OperationQueue& queue;
    const RequestChecker& checker;
    DeviceOperations& devices;
    DeviceAccess& device;
    StreamGuard& streams;
    OperationRecords& records;
    CurrentOperation& current;
    GraphWatch& graphs;
    ProgressLoop& progress;
    OperationProgress& operations;
    Closing& closing;
    Failure& failure;
  };
  explicit Issuer(const Neighbours& neighbours) : near_(neighbours) {}

  // Checks the request, prepares what operations on device memory need, and issues the operation. Returns its sequence
  // number. If the ranks compare its results, a comparison is issued after it, and the number is that of the
  // comparison. `at_once`: runs the operation to its end in this call if it does not have to wait for long.
  // kInvalidArgument: two threads issue at the same time. kResource: the queue is full. kClosed: Close was called.
  // After a failure it returns the first cause.
  Result<Sequence> Take(OperationRequest& request, const OperationOptions& options, bool at_once);
  // Issues the request as Take does, and waits until the operation has ended.
  Status Run(OperationRequest&& request, const OperationOptions& options);
  // The error that the user gets for a call that was not issued because of `found`. If the reason is the user's
  // mistake, this rank's goodbye will name the call.
  Error WhyRefused(Collective collective, const Error& found);

  // ---- OperationIssuer ----
  Status MayIssue() override;
  Result<Sequence> IssueChecked(const OperationRequest& request) override { return Issue(request, /*at_once=*/false); }
  Status WaitFor(Sequence sequence, TimePoint until) override { return near_.operations.WaitFor(sequence, until); }

 private:
  Result<Sequence> Issue(const OperationRequest& request, bool at_once);
  // Issues the all_gather that compares the results of `of`, as the next operation.
  void IssueComparison(OperationQueue::Operation& of);
  // Sets the operation's times, and reports the operation to the stream guard and to the records.
  void NoteIssue(OperationQueue::Operation& pending);

  const Neighbours near_;
};

}  // namespace rondo
