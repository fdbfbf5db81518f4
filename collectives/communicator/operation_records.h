// Passes a communicator's operations to the flight recorder while they run.
//
// Reading a clock takes as long as a short operation. So a short operation is recorded with the time at which the owner
// last read the clock, a few polls ago. An operation that ends in the call that issues it is recorded with one read of
// a coarse clock.
//
// Thread rules: the issuer calls OnIssued, any thread calls OnMessageIssued, and the owner calls all other methods.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/progress.h"
#include "collectives/engine/operation_request.h"
#include "collectives/point_to_point/operation.h"
#include "collectives/recorder/flight_recorder.h"
#include "collectives/recorder/record.h"

namespace rondo {

// The request as the flight recorder takes it.
inline CollectiveCall CallOf(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  return {.sequence = d.sequence,
          .collective = d.collective,
          .algorithm = d.algorithm,
          .op = d.op,
          .type = request.type,
          .widened = request.wide(),
          .varying = d.varying,
          .in_place = request.in_place,
          .root = d.root,
          .count = d.count,
          .input_elements = request.input_elements,
          .output_elements = request.output_elements,
          .timeout = request.timeout};
}

class OperationRecords final : public MessageObserver {
 public:
  // All references outlive it.
  OperationRecords(OperationQueue& queue, ProgressLoop& progress) : queue_(queue), progress_(progress) {}
  // Call it before the first operation. If it is never called, nothing is recorded.
  void Start(std::unique_ptr<FlightRecorder> recorder) { recorder_ = std::move(recorder); }
  // Null: nothing is recorded.
  const FlightRecorder* recorder() const { return recorder_.get(); }
  bool is_on() const { return recorder_ != nullptr; }

  // ---- collectives ----
  void OnIssued(const OperationQueue::Operation& operation) {
    if (recorder_ == nullptr) return;
    const OperationRequest& request = operation.request;
    if (recorder_->HasRoomFor(request.descriptor.sequence, queue_.completed()))
      recorder_->Issued(CallOf(request), operation.issued);
  }
  // Call it when the operation has ended in the call that issued it.
  void OnRanAtOnce(const OperationRequest& request, const Clock& clock) {
    if (recorder_ != nullptr) recorder_->RanAtOnce(CallOf(request), clock.CoarseNow());
  }
  // OnStart is called when the current operation has just started, and OnEnd when it is about to complete. `looked`:
  // the clock was read a moment ago. If `looked` is false, OnStart and OnEnd read the clock, unless the operation is so
  // short that reading would take as long.
  void OnStart(bool looked);
  void OnEnd(bool looked);
  // Call it when the clock was read and nothing has moved since the current operation started. The recorded start time
  // then becomes exact.
  void OnWaiting() {
    if (start_is_coarse_) MeasureStart();
  }
  // Call it when all issued operations have failed. `is_running`: the current operation was running when `cause`
  // occurred.
  void OnFailure(const Error& cause, bool is_running);

  // ---- messages ----
  void OnMessageIssued(MessageOperation& operation, TimePoint now);
  void OnBegun(const MessageOperation& operation) override;
  void OnEnded(const MessageOperation& operation) override;

 private:
  void MeasureStart();

  OperationQueue& queue_;
  ProgressLoop& progress_;
  std::unique_ptr<FlightRecorder> recorder_;  // its header says which thread may call which method
  bool start_is_coarse_ = false;              // the recorded start of the current operation is not exact
};

}  // namespace rondo
