// How operations on memory of devices are issued, and what they need of a core before.
#include <fmt/core.h>

#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {

// The way to the device, and whether the memory is its.
Status CommunicatorCore::OpenDevice(const OperationRequest& request) {
  if (options_.device == nullptr)
    return Fail(ErrorCode::kUnsupported, "memory of a device, and this communicator was made without devices");
  if (device_queue_ == nullptr) {
    const void* const memory = request.input_elements > 0 ? request.input : request.output;
    RONDO_ASSIGN(device_queue_, options_.device->Open(memory, request.stream, queue_.capacity()));
    std::string why;
    if (options_.device_peers && checker_.may_have_board() && device_queue_->peers(why) == nullptr)
      Log(options_.logger, LogLevel::kInfo, "{}: {} does not work on other ranks' memory: {}", names_.NameOf(rank()),
          device_queue_->name(), why);
    device_queue_seen_.store(device_queue_.get());
  }
  const auto check = [&](const void* memory, std::uint64_t elements, std::string_view what) -> Status {
    if (elements == 0) return {};
    return device_queue_->Check(memory, elements * SizeOf(request.type), what);
  };
  RONDO_TRY(check(request.input, request.input_elements, "input"));
  return check(request.output, request.output_elements, "output");
}

Result<Sequence> CommunicatorCore::IssueOnDevice(OperationRequest& request) {
  const auto issue = [&]() -> Result<Sequence> {
    RONDO_TRY(OpenDevice(request));
    RONDO_ASSIGN(const bool captured, device_queue_->IsCaptured(request.stream));
    if (captured) return IssueIntoGraph(request);
    RONDO_TRY(PrepareStaging(request));
    return Issue(request);
  };
  Result<Sequence> issued = issue();
  if (issued) return issued;
  return Fail(OnDevice(issued.error()));
}

Status CommunicatorCore::PrepareStaging(OperationRequest& request) {
  const bool idle = !queue_.HasPending();
  if (idle) device_queue_->Rest();
  if (staging_memory_ == nullptr || staging_memory_->bytes().size() < current_.windows().BytesFor(request))
    RONDO_TRY(GrowStaging(request));
  if (request.stream_waits && stream_watch_ == nullptr) RONDO_TRY(WatchStreams());
  request.staging = staging_memory_.get();
  request.adapters_know_input = AdaptersKnow(request, idle);
  return {};
}

// Only of what is sent as it lies: one block, by a transport whose lanes may do so.
bool CommunicatorCore::AdaptersKnow(const OperationRequest& request, bool idle) {
  const OperationDescriptor& d = request.descriptor;
  if (!current_.may_send_device_memory() || d.count == 0 || request.input_elements == 0) return false;
  if (!d.varying && request.input_elements != d.count) return false;
  if (device_registrations_ == nullptr)
    device_registrations_ = std::make_unique<DeviceRegistrations>(*options_.transport, *device_queue_);
  const auto* const input = static_cast<const std::byte*>(request.input);
  if (device_registrations_->Knows({input, request.input_elements * SizeOf(request.type)}, idle)) return true;
  if (!std::exchange(said_why_staged_, true))
    Log(options_.logger, LogLevel::kInfo, "{}: memory of {} is not sent from where it lies: {}", names_.NameOf(rank()),
        device_queue_->name(), device_registrations_->why());
  return false;
}

// Pinning may wait for the device, on whose streams others may wait for operations of ours: these end first, and so no
// longer need the memory that is given back here.
Status CommunicatorCore::GrowStaging(const OperationRequest& request) {
  if (staging_memory_ != nullptr) {
    const Sequence last = queue_.issued();
    if (Status ended = WaitFor(last, Later(clock_->Now(), request.timeout)); !ended) {
      if (ended.error().code() != ErrorCode::kNotReady) return ended;
      return Fail(ErrorCode::kTimeout,
                  "{} did not begin within its time: it needs more staging memory, and operation #{} "
                  "is still under way",
                  request.descriptor.ToString(), last);
    }
    staging_memory_.reset();
  }
  RONDO_ASSIGN(staging_memory_,
               StagingMemory::Make(*options_.transport, *device_queue_, current_.windows().BytesFor(request)));
  return {};
}

}  // namespace rondo
