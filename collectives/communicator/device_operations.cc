#include "collectives/communicator/device_operations.h"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace rondo {

// Opens the device at the first call. Checks that input and output are memory of that device.
Status DeviceOperations::Open(const OperationRequest& request) {
  if (options_.device == nullptr)
    return Fail(
        ErrorCode::kUnsupported,
        "the buffers are in memory of a device, but this communicator was made without devices (options.device)");
  if (near_.device.get() == nullptr) {
    const void* const memory = request.input_elements > 0 ? request.input : request.output;
    RONDO_ASSIGN(std::unique_ptr<DeviceQueue> queue,
                 options_.device->Open(memory, request.stream, near_.queue.capacity()));
    std::string why;
    if (options_.device_peers && near_.checker.may_have_shared_segment() && queue->peers(why) == nullptr)
      Log(options_.logger, LogLevel::kInfo, "{}: {} cannot use other ranks' memory: {}",
          near_.names.NameOf(options_.rank), queue->name(), why);
    near_.device.Set(std::move(queue));
  }
  const auto check = [&](const void* memory, std::uint64_t elements, std::string_view what) -> Status {
    if (elements == 0) return {};
    return near_.device->Check(memory, elements * SizeOf(request.type), what);
  };
  RONDO_TRY(check(request.input, request.input_elements, "input"));
  return check(request.output, request.output_elements, "output");
}

Result<Sequence> DeviceOperations::Issue(OperationRequest& request) {
  const auto issue = [&]() -> Result<Sequence> {
    RONDO_TRY(Open(request));
    RONDO_ASSIGN(const bool captured, near_.device->IsCaptured(request.stream));
    if (captured) return IssueIntoGraph(request);
    RONDO_TRY(Prepare(request));
    return near_.issuer.IssueChecked(request);
  };
  Result<Sequence> issued = issue();
  if (issued) return issued;
  return Fail(WithDeviceNamed(issued.error(), near_.device.get(), near_.names));
}

Status DeviceOperations::Prepare(OperationRequest& request) {
  const bool idle = !near_.queue.HasPending();
  if (idle) near_.device->RunIdleCleanup();
  if (staging_memory_ == nullptr || staging_memory_->bytes().size() < near_.current.windows().BytesFor(request))
    RONDO_TRY(GrowStaging(request));
  if (request.stream_waits && !near_.streams.is_on()) RONDO_TRY(near_.streams.Begin());
  request.staging = staging_memory_.get();
  request.adapters_know_input = AdaptersKnow(request, idle);
  return {};
}

// True only if the input is one block, and the lanes can send device memory without a copy.
bool DeviceOperations::AdaptersKnow(const OperationRequest& request, bool idle) {
  const OperationDescriptor& d = request.descriptor;
  if (!near_.current.may_send_device_memory() || d.count == 0 || request.input_elements == 0) return false;
  if (!d.varying && request.input_elements != d.count) return false;
  if (registrations_ == nullptr)
    registrations_ = std::make_unique<DeviceRegistrations>(*options_.transport, *near_.device);
  const auto* const input = static_cast<const std::byte*>(request.input);
  if (registrations_->Knows({input, request.input_elements * SizeOf(request.type)}, idle)) return true;
  if (std::exchange(staged_, Staged::kExplained) == Staged::kUnexplained)
    Log(options_.logger, LogLevel::kInfo, "{}: memory of {} is not sent directly: {}",
        near_.names.NameOf(options_.rank), near_.device->name(), registrations_->why());
  return false;
}

// Pinning memory can block until the device is idle, and the device's streams may wait for operations of this
// communicator. So this function first waits until those operations have ended. Then nothing uses the old staging
// memory any more.
Status DeviceOperations::GrowStaging(const OperationRequest& request) {
  if (staging_memory_ != nullptr) {
    const Sequence last = near_.queue.issued();
    if (Status ended = near_.issuer.WaitFor(last, Later(near_.clock.Now(), request.timeout)); !ended) {
      if (ended.error().code() != ErrorCode::kNotReady) return ended;
      return Fail(
          ErrorCode::kTimeout,
          "{} did not begin within its timeout: it needs more staging memory, but operation #{} is still under way",
          request.descriptor.ToString(), last);
    }
    staging_memory_.reset();
  }
  RONDO_ASSIGN(staging_memory_,
               StagingMemory::Make(*options_.transport, *near_.device, near_.current.windows().BytesFor(request)));
  return {};
}

// ---- graphs ----

// An operation that is captured is run once, so that the ranks agree on it and find each other's memory. Then the
// devices' work is put on the stream, so launches of the graph need no host.

// All ranks refuse the same operations in this function, so no rank waits for another one.
Status DeviceOperations::PrepareForGraph(OperationRequest& request) {
  OperationDescriptor& d = request.descriptor;
  const auto refuse = [&](std::string_view why) {
    return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", d.ToString(), why);
  };
  if (!request.devices_serve_type() || request.compares)
    return refuse("its results are widened or compared on the host");
  if (request.user != nullptr) return refuse("a user's function runs on the host only");
  if (options_.world_size > 1) {
    if (!options_.device_peers) return refuse("device_peers is off");
    if (d.algorithm != Algorithm::kIntranode || !near_.checker.may_have_shared_segment())
      return refuse(
          "it is staged through host memory, because devices exchange data directly only if all ranks are on one host "
          "and all counts are equal");
    if (static_cast<std::size_t>(options_.world_size) > DeviceReduce::kMaxOperands)
      return refuse(fmt::format("it has more than {} ranks", DeviceReduce::kMaxOperands));
  }
  // The conditions below may be unmet on this rank alone. That is no error here, because the other ranks learn it from
  // this rank's vote.
  std::string why;
  if (DevicePeers* const peers = near_.device->peers(why); peers != nullptr) {
    if (const auto state = peers->BarrierState(); !state) why = state.error().message();
  }
  if (!why.empty())
    Log(options_.logger, LogLevel::kWarning, "{}: {} cannot take part in operations in graphs: {}",
        near_.names.NameOf(options_.rank), near_.device->name(), why);
  d.in_graph = true;
  program_ = {.rank = options_.rank, .timeout = request.timeout};
  request.program = &program_;
  return {};
}

Result<Sequence> DeviceOperations::IssueIntoGraph(OperationRequest& request) {
  // After this wait, either all ranks or none of them have a shared segment.
  if (options_.world_size > 1) RONDO_TRY(near_.issuer.WaitFor(near_.queue.issued(), TimePoint::max()));
  RONDO_TRY(PrepareForGraph(request));
  // In a world of one rank no operation is issued, so the program gets the number of the latest completed operation.
  Sequence sequence = near_.queue.completed();
  if (options_.world_size == 1) {
    RONDO_TRY(near_.issuer.MayIssue());
    RONDO_TRY(WriteProgramOfOne(request));
  } else {
    RONDO_ASSIGN(sequence, near_.issuer.IssueChecked(request));
    RONDO_TRY(near_.issuer.WaitFor(sequence, TimePoint::max()));
    if (!program_.declined.empty())
      return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", request.descriptor.ToString(),
                  program_.declined);
  }
  program_.operation = sequence;
  near_.graphs.Watch(*near_.device);
  if (const Status captured = near_.device->Capture(request.stream, program_); !captured) {
    if (options_.world_size > 1)
      // The other ranks have captured the operation, so the communicator must fail.
      near_.failure.Begin(WithDeviceNamed(captured.error(), near_.device.get(), near_.names));
    return Fail(captured.error());
  }
  return sequence;
}

Status DeviceOperations::WriteProgramOfOne(const OperationRequest& request) {
  std::string why;
  DevicePeers* const peers = near_.device->peers(why);
  if (peers == nullptr)
    return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", request.descriptor.ToString(), why);
  RONDO_ASSIGN(const std::byte* const state, peers->BarrierState());
  program_.barrier_states = {const_cast<std::byte*>(state)};
  if (request.input_elements == 0 || request.output_elements == 0) return {};
  if (!Reduces(request.descriptor.collective)) {
    program_.copies = {{static_cast<std::byte*>(request.output), static_cast<const std::byte*>(request.input),
                        request.output_elements * SizeOf(request.type)}};
    return {};
  }
  DeviceReduce reduction{.destination = static_cast<std::byte*>(request.output),
                         .count = 1,
                         .elements = request.output_elements,
                         .type = request.type,
                         .op = request.descriptor.op,
                         .divisor = request.descriptor.op == ReduceOp::kAvg ? 1 : 0};
  reduction.operands[0] = static_cast<const std::byte*>(request.input);
  reduction.scales[0] = request.scale;
  program_.reductions = {reduction};
  return {};
}

}  // namespace rondo
