// What operations on memory of devices need of a core before they are issued.
#include "collectives/communicator_core.h"

namespace rondo {

Status CommunicatorCore::PrepareDevice(OperationRequest& request) {
  if (options_.device == nullptr)
    return Fail(ErrorCode::kUnsupported, "memory of a device, and this communicator was made without devices");
  if (device_queue_ == nullptr) {
    const void* const memory = request.input_elements > 0 ? request.input : request.output;
    RONDO_ASSIGN(device_queue_, options_.device->Open(memory, pending_.size()));
    std::string why;
    if (options_.device_peers && may_have_board_.load() && device_queue_->peers(why) == nullptr)
      Log(options_.logger, LogLevel::kInfo, "rank {}: {} does not work on other ranks' memory: {}", rank(),
          device_queue_->name(), why);
    device_queue_seen_.store(device_queue_.get());
  }
  if (completed_.load(std::memory_order_acquire) == issued_.load(std::memory_order_relaxed)) device_queue_->Rest();
  const auto check = [&](const void* memory, std::uint64_t elements, std::string_view what) -> Status {
    if (elements == 0) return {};
    return device_queue_->Check(memory, elements * SizeOf(request.type), what);
  };
  RONDO_TRY(check(request.input, request.input_elements, "input"));
  RONDO_TRY(check(request.output, request.output_elements, "output"));
  if (staging_memory_ == nullptr || staging_memory_->bytes().size() < windows_.BytesFor(request))
    RONDO_TRY(GrowStaging(request));
  request.staging = staging_memory_.get();
  return {};
}

// Pinning may wait for the device, on whose streams others may wait for operations of ours: these end first, and so no
// longer need the memory that is given back here.
Status CommunicatorCore::GrowStaging(const OperationRequest& request) {
  if (staging_memory_ != nullptr) {
    const Sequence last = issued_.load(std::memory_order_relaxed);
    if (Status ended = WaitFor(last, Later(clock_->Now(), request.timeout)); !ended) {
      if (ended.error().code() != ErrorCode::kNotReady) return ended;
      return Fail(ErrorCode::kTimeout,
                  "{} did not begin within its time: it needs more staging memory, and operation #{} "
                  "is still under way",
                  request.descriptor.ToString(), last);
    }
    staging_memory_.reset();
  }
  RONDO_ASSIGN(staging_memory_, StagingMemory::Make(*options_.transport, *device_queue_, windows_.BytesFor(request)));
  return {};
}

}  // namespace rondo
