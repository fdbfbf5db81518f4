// What operations on memory of devices need of a core before they are issued.
#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/service_thread.h"
#include "collectives/blame.h"
#include "collectives/communicator_core.h"

namespace rondo {

// The way to the device, and whether the memory is its.
Status CommunicatorCore::OpenDevice(const OperationRequest& request) {
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
  const bool idle = completed_.load(std::memory_order_acquire) == issued_.load(std::memory_order_relaxed);
  if (idle) device_queue_->Rest();
  if (staging_memory_ == nullptr || staging_memory_->bytes().size() < windows_.BytesFor(request))
    RONDO_TRY(GrowStaging(request));
  if (request.stream_waits && stream_watch_ == nullptr) RONDO_TRY(WatchStreams());
  request.staging = staging_memory_.get();
  request.adapters_know_input = AdaptersKnow(request, idle);
  return {};
}

// Only of what is sent as it lies: one block, by a transport whose lanes may do so.
bool CommunicatorCore::AdaptersKnow(const OperationRequest& request, bool idle) {
  const OperationDescriptor& d = request.descriptor;
  if (reading_movers_.empty() || d.count == 0 || request.input_elements == 0) return false;
  if (!d.varying && request.input_elements != d.count) return false;
  if (device_registrations_ == nullptr)
    device_registrations_ = std::make_unique<DeviceRegistrations>(*options_.transport, *device_queue_);
  const auto* const input = static_cast<const std::byte*>(request.input);
  if (device_registrations_->Knows({input, request.input_elements * SizeOf(request.type)}, idle)) return true;
  if (!std::exchange(said_why_staged_, true))
    Log(options_.logger, LogLevel::kInfo, "rank {}: memory of {} is not sent from where it lies: {}", rank(),
        device_queue_->name(), device_registrations_->why());
  return false;
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

Error CommunicatorCore::OnDevice(const Error& found) const {
  if (found.code() != ErrorCode::kDevice || found.culprit() != kNoRank) return found;
  return WithIdentity(found.With([&](ErrorDetails& d) {
    if (device_queue_ != nullptr) d.message = fmt::format("{}: {}", device_queue_->name(), d.message);
    d.culprit = rank();
  }));
}

// ---- streams that wait, where nobody can end what they wait for ----

// What has been issued before it is there is watched, too: what streams wait for comes after it.
Status CommunicatorCore::WatchStreams() {
  try {
    stream_watch_ = std::make_unique<StreamWatch>(*this, *clock_, pending_.size());
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the thread that watches streams cannot be made: {}", error.what());
  }
  for (Sequence s = completed_.load() + 1; s <= issued_.load(std::memory_order_relaxed); ++s) Watch(PendingOf(s));
  return {};
}

void CommunicatorCore::Watch(const Pending& pending) {
  const OperationRequest& request = pending.request;
  const bool on_device = request.staging != nullptr;
  stream_watch_->Issued(
      request.descriptor.sequence,
      {.deadline = pending.deadline, .on_device = on_device, .stream_waits = on_device && request.stream_waits});
}

// By a thread of its own: a logger may wait for a lock that whoever is held up has, an interpreter's say. While one
// still speaks no other is heard.
void CommunicatorCore::OnHeldUp(Sequence operation, Duration time) {
  if (options_.logger == nullptr || teller_speaks_.exchange(true)) return;
  if (teller_.joinable()) teller_.join();
  const auto tell = [this, operation, seconds = std::chrono::duration<double>(time).count()] {
    IfMemoryAllows([&] {
      Log(options_.logger, LogLevel::kWarning,
          "rank {}: whoever drives operation #{} has not come back from a call for {:.1f} s, which may be one of the "
          "driver of {}: where a call of the driver waits for streams that wait for an operation, as the first launch "
          "of a kernel may, that cannot end before its timeout",
          rank(), operation, seconds, device_queue_seen_.load()->name());
    });
    teller_speaks_.store(false);
  };
  IfMemoryAllows([&] {
    try {
      teller_ = StartServiceThread("rondo-teller", tell);
    } catch (const std::system_error&) {  // then it is not said
    }
  });
}

void CommunicatorCore::OnLate(Sequence operation, bool is_held_up) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows([&] {
    const std::string whom =
        is_held_up ? fmt::format(
                         "a call that does not come back, perhaps one of the driver of {}: such a call may wait "
                         "for streams that wait for an operation, as the first launch of a kernel does",
                         device_queue_seen_.load()->name())
                   : std::string(
                         "somebody to drive it: no thread waits for an operation, and there is no progress "
                         "thread, or it is in a callback");
    error = WithCulprit(ErrorCode::kTimeout,
                        fmt::format("operation #{} did not end in time: rank {} waits for {}", operation, rank(), whom),
                        rank());
  });
  Poison(std::move(error));
}

void CommunicatorCore::LetStreamsGo() {
  runner_->Withdraw();
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) queue->LeaveForGood();
}

}  // namespace rondo
