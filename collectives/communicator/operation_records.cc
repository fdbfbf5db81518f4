#include "collectives/communicator/operation_records.h"

#include <algorithm>
#include <optional>

namespace rondo {
namespace {

// Operations of this size and more take much longer than reading the clock.
constexpr std::uint64_t kLongFromBytes = 32 * 1024;

bool IsShort(const OperationRequest& request) {
  const std::uint64_t elements = std::max(request.input_elements, request.output_elements);
  return request.descriptor.algorithm == Algorithm::kIntranode && elements * SizeOf(request.type) <= kLongFromBytes;
}

}  // namespace

void OperationRecords::OnStart(bool looked) {
  if (recorder_ == nullptr) return;
  const Sequence sequence = queue_.current();
  const OperationQueue::Operation& pending = queue_.At(sequence);
  start_is_coarse_ = !looked && IsShort(pending.request);
  if (!looked && !start_is_coarse_) progress_.Look();
  if (!recorder_->Has(sequence)) recorder_->Issued(CallOf(pending.request), pending.issued);
  // The algorithm may have changed after the operation was issued (CurrentOperation::SettleAlgorithm).
  recorder_->Started(sequence, pending.request.descriptor.algorithm, progress_.last_look(), start_is_coarse_);
}

void OperationRecords::MeasureStart() {
  start_is_coarse_ = false;
  recorder_->Measured(queue_.current(), progress_.last_look());
}

void OperationRecords::OnEnd(bool looked) {
  if (recorder_ == nullptr) return;
  const Sequence sequence = queue_.current();
  if (!looked && !IsShort(queue_.At(sequence).request)) progress_.Look();
  start_is_coarse_ = false;
  recorder_->Completed(sequence, progress_.last_look());
}

void OperationRecords::OnMessageIssued(MessageOperation& operation, TimePoint now) {
  if (recorder_ == nullptr) return;
  operation.record = recorder_->MessageIssued({.sends = operation.sends,
                                               .peer = operation.peer,
                                               .tag = operation.tag,
                                               .type = operation.type,
                                               .count = operation.bytes / SizeOf(operation.type),
                                               .timeout = operation.timeout},
                                              now);
}

void OperationRecords::OnBegun(const MessageOperation& operation) {
  const bool matched = !operation.sends;
  recorder_->MessageStarted(operation.record, matched ? operation.message.source : operation.peer,
                            matched ? operation.message.tag : operation.tag, progress_.last_look());
}

void OperationRecords::OnEnded(const MessageOperation& operation) {
  // The message of a receive is known once it has matched; a failed receive may not have matched.
  const bool matched = !operation.sends && operation.message.source != kNoRank;
  const std::uint64_t got = operation.message.count * SizeOf(operation.message.type);
  const bool good = !operation.error.has_value();
  const std::uint64_t due = !matched ? operation.bytes : good ? got : operation.message_bytes;
  recorder_->MessageEnded(operation.record, matched ? operation.message.source : operation.peer,
                          matched ? operation.message.tag : operation.tag, good ? due : operation.done, due,
                          good ? nullptr : &*operation.error, progress_.last_look());
}

void OperationRecords::OnFailure(const Error& cause, bool is_running) {
  if (recorder_ == nullptr) return;
  progress_.Look();
  start_is_coarse_ = false;
  std::optional<RecordedPlace> place;
  const ErrorDetails& details = cause.details();
  if (is_running && details.step) place = {*details.step, details.bytes_done, details.bytes_due};
  const Sequence issued = queue_.issued();
  for (Sequence sequence = queue_.completed() + 1; sequence <= issued; ++sequence) {
    recorder_->Failed(sequence, progress_.last_look(), place);
    place.reset();
  }
}

}  // namespace rondo
