// What a core tells its flight recorder, and what becomes of the records: text, and files.
//
// No clock is read for a record where the operation is as short as that: then the last look at the clock serves, which
// whoever waits took within the last few polls; and of what runs at once (Issue) a coarse one, once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// From this size on a look at the clock is nothing beside the operation.
constexpr std::uint64_t kLongFromBytes = 32 * 1024;

bool IsShort(const OperationRequest& request) {
  const std::uint64_t elements = std::max(request.input_elements, request.output_elements);
  return request.descriptor.algorithm == Algorithm::kBoard && elements * SizeOf(request.type) <= kLongFromBytes;
}

}  // namespace

// ---- while operations run ----

void CommunicatorCore::RecordStart(bool looked) {
  if (recorder_ == nullptr) return;
  const Sequence sequence = queue_.current();
  const OperationQueue::Operation& pending = queue_.At(sequence);
  start_is_coarse_ = !looked && IsShort(pending.request);
  if (!looked && !start_is_coarse_) progress_.Look();
  if (!recorder_->Has(sequence)) recorder_->Issued(pending.request.recorded(), pending.issued);
  // The algorithm may have become another one since it was issued (Settle).
  recorder_->Started(sequence, pending.request.descriptor.algorithm, progress_.last_look(), start_is_coarse_);
}

void CommunicatorCore::RecordWaiting() {
  start_is_coarse_ = false;
  recorder_->Measured(queue_.current(), progress_.last_look());
}

void CommunicatorCore::RecordEnd(bool looked) {
  if (recorder_ == nullptr) return;
  const Sequence sequence = queue_.current();
  if (!looked && !IsShort(queue_.At(sequence).request)) progress_.Look();
  start_is_coarse_ = false;
  recorder_->Completed(sequence, progress_.last_look());
}

void CommunicatorCore::OnBegun(const MessageOperation& operation) {
  const bool matched = !operation.sends;
  recorder_->MessageStarted(operation.record, matched ? operation.message.source : operation.peer,
                            matched ? operation.message.tag : operation.tag, progress_.last_look());
}

void CommunicatorCore::OnEnded(const MessageOperation& operation) {
  // What a receive got is known once it has matched; of one that failed it may not be.
  const bool matched = !operation.sends && operation.message.source != kNoRank;
  const std::uint64_t got = operation.message.count * SizeOf(operation.message.type);
  const bool good = !operation.error.has_value();
  const std::uint64_t due = !matched ? operation.bytes : good ? got : operation.message_bytes;
  recorder_->MessageEnded(operation.record, matched ? operation.message.source : operation.peer,
                          matched ? operation.message.tag : operation.tag, good ? due : operation.done, due,
                          good ? nullptr : &*operation.error, progress_.last_look());
}

void CommunicatorCore::RecordFailure(const Error& cause, bool running) {
  if (recorder_ == nullptr) return;
  progress_.Look();
  start_is_coarse_ = false;
  std::optional<RecordedPlace> place;
  const ErrorDetails& details = cause.details();
  if (running && details.step) place = {*details.step, details.bytes_done, details.bytes_due};
  const Sequence issued = queue_.issued();
  for (Sequence sequence = queue_.completed() + 1; sequence <= issued; ++sequence) {
    recorder_->Failed(sequence, progress_.last_look(), place);
    place.reset();
  }
}

// ---- what is left of them ----

DumpOrigin CommunicatorCore::Origin(std::string_view reason) const {
  const auto self = static_cast<std::size_t>(rank());
  const PeerIdentity& identity = options_.peers[self];
  return {.job = options_.job.empty() ? "default" : options_.job,
          .generation = options_.generation,
          .rank = group_.ranks[self],
          .host = identity.host,
          .host_id = identity.host_id,
          .pid = identity.pid,
          .reason = std::string(reason),
          .anchor = AnchorOf(*clock_)};
}

DumpedGroup CommunicatorCore::RecordsOfGroup() const {
  DumpedGroup dumped;
  dumped.name = group_.name;
  dumped.description = group_.description;
  dumped.ranks = group_.ranks;
  dumped.rank = rank();
  // Records first: what they say of an operation is then no more than what is said of all.
  dumped.records = recorder_->Read();
  dumped.message_errors = recorder_->MessageErrors();
  if (options_.frame != nullptr)
    for (auto& [number, text] : dumped.message_errors) text = options_.frame->Reword(text);
  dumped.completed = queue_.completed();
  dumped.issued = queue_.issued();
  {
    const std::lock_guard lock(endpoint_mutex_);
    for (Rank peer = 0; endpoint_ != nullptr && peer < world_size(); ++peer)
      dumped.transport_to.emplace_back(peer == rank() ? "self" : endpoint_->TransportTo(peer));
  }
  std::set<std::string_view> names(dumped.transport_to.begin(), dumped.transport_to.end());
  names.erase("self");
  dumped.transports = fmt::format("{}", fmt::join(names, "+"));
  if (const std::optional<Error> failed = failure()) dumped.failure = FramedError(*failed).ToString();
  return dumped;
}

void CommunicatorCore::AddRecords(std::vector<DumpedGroup>& groups) const {
  if (recorder_ != nullptr) groups.push_back(RecordsOfGroup());
  for (const auto& child : children_.Live()) child->AddRecords(groups);
}

std::string CommunicatorCore::DumpRecords(std::string_view reason) const {
  std::vector<DumpedGroup> groups;
  AddRecords(groups);
  return DumpText(Origin(reason), groups);
}

Result<std::string> CommunicatorCore::WriteRecords(std::string_view reason) const {
  if (options_.record_dir.empty())
    return Fail(ErrorCode::kInvalidArgument, "there is no folder for records (options.record_dir)");
  const std::lock_guard lock(dump_mutex_);
  return WriteDump(options_.record_dir, DumpFileName(Origin(reason), group_.name), DumpRecords(reason));
}

void CommunicatorCore::WriteRecordsOfFailure() const {
  if (options_.record_dir.empty()) return;
  if (const Result<std::string> written = WriteRecords("error"); !written)
    Log(options_.logger, LogLevel::kWarning, "{}: records: {}", NameOf(rank()), written.error().message());
}

}  // namespace rondo
