// Issues the collective operations of a communicator: checks a call, gives it the next number, and puts it into the
// queue. A short one on the shared segment it runs to its end in the same call.
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
  // The parts of the communicator that it needs. All of them outlive it.
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

  // Checks the request, prepares what memory on devices needs, and issues it; returns its number. If its results are to
  // be compared, the comparison follows, and the number is the comparison's. `at_once`: runs the operation to its end
  // in this call if nothing keeps it waiting. kInvalidArgument: a second thread issues. kResource: the queue is full.
  // After a failure: its first cause. kClosed: after Close.
  Result<Sequence> Take(OperationRequest& request, const OperationOptions& options, bool at_once);
  // Take, and wait for the end.
  Status Run(OperationRequest&& request, const OperationOptions& options);
  // The error that a call returns which was not issued because of `found`; the goodbye will name the call.
  Error WhyRefused(Collective collective, const Error& found);

  // ---- OperationIssuer ----
  Status MayIssue() override;
  Result<Sequence> IssueChecked(const OperationRequest& request) override { return Issue(request, /*at_once=*/false); }
  Status WaitFor(Sequence sequence, TimePoint until) override { return near_.operations.WaitFor(sequence, until); }

 private:
  Result<Sequence> Issue(const OperationRequest& request, bool at_once);
  // The all_gather that compares the results of `of`, right behind it.
  void IssueComparison(OperationQueue::Operation& of);
  // When the operation was issued, and what follows from it.
  void NoteIssue(OperationQueue::Operation& pending);

  const Neighbours near_;
};

}  // namespace rondo
