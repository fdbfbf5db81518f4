// Passes a communicator's operations to the flight recorder while they run.
//
// No clock is read for a record of an operation that takes no longer than that: then the last look at the clock serves,
// which the owner took within the last few polls; and for an operation that ends in the call that issues it a coarse
// clock, once.
//
// Thread rules: OnIssued the issuer, OnMessageIssued any thread, all else the owner.
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

// As the flight recorder takes it.
inline CollectiveCall CallOf(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  return {.sequence = d.sequence,
          .collective = d.collective,
          .algorithm = d.algorithm,
          .op = d.op,
          .type = request.type,
          .wide_partials = request.wide(),
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
  // Before the first operation; otherwise nothing is recorded.
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
  // The operation has ended in the call that issued it.
  void OnRanAtOnce(const OperationRequest& request, const Clock& clock) {
    if (recorder_ != nullptr) recorder_->RanAtOnce(CallOf(request), clock.CoarseNow());
  }
  // The current operation has just started, or is about to complete. `looked`: the clock was read a moment ago;
  // otherwise these read it, unless that would take as long as the operation does.
  void OnStart(bool looked);
  void OnEnd(bool looked);
  // The clock was read, and nothing has moved since the current operation started.
  void OnWaiting() {
    if (start_is_coarse_) MeasureStart();
  }
  // Every issued operation has failed. `is_running`: the current operation was running when `cause` occurred.
  void OnFailure(const Error& cause, bool is_running);

  // ---- messages ----
  void OnMessageIssued(MessageOperation& operation, TimePoint now);
  void OnBegun(const MessageOperation& operation) override;
  void OnEnded(const MessageOperation& operation) override;

 private:
  void MeasureStart();

  OperationQueue& queue_;
  ProgressLoop& progress_;
  std::unique_ptr<FlightRecorder> recorder_;  // which thread may ask what of it is its own to say
  bool start_is_coarse_ = false;              // of the current operation, as it is recorded
};

}  // namespace rondo
