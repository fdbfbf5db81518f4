#include "collectives/communicator/current_operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "collectives/integrity/result_digest.h"
#include "collectives/schedule/layout.h"

namespace rondo {

CurrentOperation::CurrentOperation(const Options& options, const Neighbours& neighbours)
    : options_(options),
      near_(neighbours),
      plans_(options.rank, options.max_cached_plans),
      widened_(options.max_scratch_bytes),
      windows_(options.device_window_bytes, std::max(options.world_size, 1)),
      staging_(windows_) {}

void CurrentOperation::Open(const EngineOptions& engine, const RailOptions& rails,
                            std::vector<std::unique_ptr<UserOperationMover>> movers,
                            std::vector<DeviceReadingMover*> readers) {
  movers_ = std::move(movers);
  readers_ = std::move(readers);
  std::vector<Mover*> of_rails;
  for (const auto& mover : movers_) of_rails.push_back(mover.get());
  runner_ = std::make_unique<Runner>(engine, rails, *near_.endpoint, of_rails);
  near_.checker.SetMayHaveSharedSegment(near_.endpoint->MayHaveSharedSegment());
  segment_settled_ = !near_.checker.may_have_shared_segment();
}

// ---- running ----

// The first operation waits until it is known whether there is a shared segment, so that all ranks take the same path.
Result<bool> CurrentOperation::SettleSegment() {
  if (segment_ == nullptr) {
    RONDO_ASSIGN(segment_, near_.endpoint->OpenSharedSegment());
    // Sends a message to every peer, so that a peer that has already failed answers with its notice.
    for (const Rank peer : near_.endpoint->ControlPeers())
      near_.endpoint->SendControl(peer, {ControlKind::kHeartbeat, {}});
  }
  if (segment_->state() == SharedSegmentState::kMaking)
    return false;  // if the segment has failed, the check for failures ends the operation
  segment_settled_ = true;
  if (segment_->state() == SharedSegmentState::kReady) {
    runner_->UseSegment(*segment_);
  } else {
    near_.checker.SetMayHaveSharedSegment(false);
  }
  return true;
}

// If there is no shared segment, chooses another algorithm for a request that would use it. All ranks make the same
// choice.
Status CurrentOperation::SettleAlgorithm(OperationRequest& request) const {
  OperationDescriptor& d = request.descriptor;
  if (d.algorithm != Algorithm::kIntranode || runner_->has_segment()) return {};
  if (request.algorithm_is_asked)
    return Fail(ErrorCode::kUnsupported, "{} cannot use the intranode path, because there is no shared segment: {}",
                d.ToString(), segment_->why());
  RONDO_ASSIGN(const Selection instead, near_.checker.ChooseSchedule(request));
  d.algorithm = instead.algorithm;
  return {};
}

Result<bool> CurrentOperation::Start(OperationRequest& request) {
  if (!segment_settled_) {
    RONDO_ASSIGN(const bool settled, SettleSegment());
    if (!settled) return false;
  }
  NoteTimeSlicing();
  // This condition has the same value on all ranks.
  if (request.program != nullptr && !runner_->ServesDevices(request.descriptor)) [[unlikely]] {
    request.program->declined = "there is no shared segment: " + segment_->why();
    return true;
  }
  RONDO_TRY(SettleAlgorithm(request));
  if (request.staging != nullptr) {
    staging_.Start(request, *near_.device);
    on_devices_ = MayRunOnDevices(request) ? OnDevices::kUntried : OnDevices::kDeclined;
    return true;
  }
  if (request.program != nullptr) [[unlikely]] {
    StartOnDevices(request);
    return true;
  }
  RONDO_TRY(Begin(request));
  return true;
}

OperationBuffers CurrentOperation::UserBuffersOf(const OperationRequest& request, bool in_place) {
  OperationBuffers buffers;
  buffers.input = static_cast<const std::byte*>(request.input);
  buffers.output = static_cast<std::byte*>(request.output);
  // In place, the engine gets the larger one of the user's two buffers.
  if (in_place && request.output_elements < request.input_elements)
    buffers.output -= request.own_at * SizeOf(request.type);
  if (request.counts != nullptr) buffers.counts = *request.counts;
  return buffers;
}

Result<OperationBuffers> CurrentOperation::BuffersOf(const OperationRequest& request) {
  if (!request.wide()) return UserBuffersOf(request, request.in_place);
  RONDO_ASSIGN(OperationBuffers buffers,
               widened_.Begin(request.input, request.input_elements, request.type, request.in_place));
  if (request.counts != nullptr) buffers.counts = *request.counts;
  return buffers;
}

// Runs the operation on the devices alone; they widen elements while they reduce.
void CurrentOperation::StartOnDevices(const OperationRequest& request) {
  std::string why;
  const bool in_place = request.is_in_place_for_user;
  runner_->StartOnDevices({.operation = request.on_user_elements(),
                           .buffers = UserBuffersOf(request, in_place),
                           .scale = request.scale,
                           .in_place = in_place},
                          near_.device->peers(why), request.program);
}

Status CurrentOperation::Begin(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  for (const auto& mover : movers_) mover->Use(request.user);
  for (DeviceReadingMover* const mover : readers_) mover->Use(&staging_, staging_.input_of_window());
  RONDO_ASSIGN(const OperationBuffers buffers, BuffersOf(request));
  const Plan* plan = nullptr;
  if (d.algorithm != Algorithm::kIntranode) {
    RONDO_ASSIGN(plan, PlanOf(request, request.in_place));
  }
  return runner_->Start(
      {.operation = d, .buffers = buffers, .scale = request.scale, .in_place = request.in_place, .plan = plan});
}

Result<const Plan*> CurrentOperation::PlanOf(const OperationRequest& request, bool in_place) {
  const OperationDescriptor& d = request.descriptor;
  return plans_.Get({.collective = d.collective,
                     .algorithm = d.algorithm,
                     .world_size = options_.world_size,
                     .root = d.root,
                     .in_place = in_place,
                     .scaled = Reduces(d.collective) && d.op == ReduceOp::kPremulSum,
                     .hosts = d.algorithm == Algorithm::kHierarchical ? &near_.checker.topology().hosts : nullptr},
                    /*averages=*/d.op == ReduceOp::kAvg);
}

// Returns the same on all ranks. An operation needs a CPU, and so is staged through the host, if its results are
// compared, if it uses a user's function, or if it is computed in a wider type (for exceptions see
// OperationRequest::devices_serve_type).
bool CurrentOperation::MayRunOnDevices(const OperationRequest& request) const {
  return options_.device_peers && request.devices_serve_type() && !request.compares && request.descriptor.count > 0 &&
         request.descriptor.algorithm == Algorithm::kIntranode && runner_->ServesDevices(request.descriptor) &&
         !(runner_->devices_are_time_sliced() &&
           request.descriptor.BytesOfAll(options_.world_size) <= options_.gpu_timeslice_staging_max_bytes);
}

void CurrentOperation::NoteTimeSlicing() {
  if (!runner_->devices_are_time_sliced() || is_time_sliced_.exchange(true)) return;
  if (options_.rank == 0)
    Log(options_.logger, LogLevel::kWarning,
        "processes of this job share a GPU, which runs only one of them at a time; to run them at the same time, start "
        "NVIDIA's MPS (nvidia-cuda-mps-control -d) before the job");
}

Result<Progress> CurrentOperation::PollOnDevice() {
  RONDO_ASSIGN(const bool arrived, staging_.Arrive());
  if (!arrived) return Progress::kNothing;
  if (on_devices_ == OnDevices::kDeclined) {
    RONDO_ASSIGN(const bool stays, MayLeaveInput(staging_.request()));
    if (stays) staging_.LeaveInput();
    NoteWay(stays ? DeviceWay::kAdapters : DeviceWay::kHost);
    on_devices_ = OnDevices::kStaged;
  }
  if (on_devices_ == OnDevices::kStaged) return PollStaged();
  const OperationRequest& request = staging_.request();
  if (on_devices_ == OnDevices::kUntried) {
    on_devices_ = OnDevices::kRunning;
    StartOnDevices(request);
  }
  RONDO_ASSIGN(const Progress progress, runner_->Poll());
  if (progress != Progress::kComplete) return progress;
  NoteTimeSlicing();
  if (runner_->declined()) {
    on_devices_ = OnDevices::kDeclined;
    return Progress::kMoved;
  }
  NoteWay(DeviceWay::kPeers);
  staging_.Finish();
  return progress;
}

void CurrentOperation::NoteWay(DeviceWay way) {
  if (staging_.request().descriptor.count == 0) return;  // nothing is sent
  if (device_way_.load(std::memory_order_relaxed) != way) device_way_.store(way, std::memory_order_release);
}

Result<bool> CurrentOperation::MayLeaveInput(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  if (!request.adapters_know_input || d.algorithm == Algorithm::kIntranode || options_.checksums || request.wide() ||
      request.compares)
    return false;
  const bool root_has_result = request.output_elements > 0 && request.input == request.output;
  const bool in_place = d.collective == Collective::kBroadcast && root_has_result;
  RONDO_ASSIGN(const Plan* plan, PlanOf(request, in_place));
  const BufferId input = in_place ? BufferId::kOutput : BufferId::kInput;
  const std::vector<Rank> takers = TakersOf(*plan, input);
  if (takers.empty() || !OnlyGivesAway(*plan, input)) return false;
  const std::uint32_t rails = runner_->RailsOf(*plan, d);
  for (const Rank taker : takers)
    for (std::uint32_t rail = 0; rail < rails; ++rail) {
      RONDO_ASSIGN(const Lane* const lane, near_.endpoint->Open(taker, rail));
      if (lane->state() != LaneState::kOpen || !lane->sends_device_memory()) return false;
    }
  return true;
}

Result<Progress> CurrentOperation::PollStaged() {
  RONDO_ASSIGN(const Progress copies, staging_.Poll());
  if (copies == Progress::kComplete) return copies;
  RONDO_ASSIGN(const OperationRequest* window, staging_.Next());
  if (window == nullptr) return copies;
  const bool begins = !runner_->running();
  if (begins) RONDO_TRY(Begin(*window));
  RONDO_ASSIGN(const Progress run, runner_->Poll());
  if (run == Progress::kComplete) {
    End(*window);
    staging_.HasRun();
  }
  const bool moved = begins || run != Progress::kNothing || copies == Progress::kMoved;
  return moved ? Progress::kMoved : Progress::kNothing;
}

Error CurrentOperation::InOperation(const Error& found) const {
  // Calls seen() instead of get(), because the issuer may be making the queue at this moment, for its first operation
  // on a device.
  return WithDeviceNamed(found, near_.device.seen(), near_.names).With([&](ErrorDetails& d) {
    const OperationDescriptor running = operation();
    if (d.collective.empty()) d.collective = running.ToString();
    if (!d.sequence) d.sequence = running.sequence;
  });
}

void CurrentOperation::Complete(const OperationRequest& request) {
  if (request.staging != nullptr) return near_.device->Leave(request.descriptor.sequence);
  End(request);
}

void CurrentOperation::Drain() {
  runner_->Drain();
  staging_.Drain();
}

void CurrentOperation::End(const OperationRequest& request) {
  const std::uint64_t first = request.output_elements < request.input_elements ? request.own_at : 0;
  // In a graph the devices widen the elements themselves.
  const bool is_widened_here = request.wide() && request.program == nullptr;
  if (is_widened_here) widened_.End(request.output, first, request.output_elements, request.type);
  if (request.compares) [[unlikely]] {  // computes the checksum before the user gets the memory back
    request.comparison->of = request.descriptor;
    request.comparison->own =
        Crc32c(Bytes(static_cast<const std::byte*>(request.output), request.output_elements * SizeOf(request.type)),
               request.comparison->own);
  }
}

// ---- what the operation waits for ----

std::string CurrentOperation::LocalWait() const {
  if (!staging_.running()) return "";
  return fmt::format("{} {}", staging_.has_arrived() ? "copies on" : "earlier work on its stream of",
                     near_.device->name());
}

std::string CurrentOperation::DescribeDeviceWay() const {
  const DeviceWay way = device_way_.load(std::memory_order_acquire);
  if (way == DeviceWay::kNone) return "";
  return fmt::format(
      "memory of {}: {}{}\n", near_.device->name(),
      way == DeviceWay::kPeers      ? "read directly by the ranks' devices"
      : way == DeviceWay::kAdapters ? "sent directly by adapters, received through the host"
                                    : "staged through the host",
      is_time_sliced_ ? "; processes time-slice a GPU (NVIDIA's MPS lets it run them at the same time)" : "");
}

// ---- free functions ----

Error WithDeviceNamed(const Error& error, const DeviceQueue* queue, const RankNames& names) {
  if (error.code() != ErrorCode::kDevice || error.culprit() != kNoRank) return error;
  return names.WithCulpritsHost(error.With([&](ErrorDetails& d) {
    if (queue != nullptr) d.message = fmt::format("{}: {}", queue->name(), d.message);
    d.culprit = names.self();
  }));
}

Status CompareResults(const OperationRequest& request) {
  if (request.compares || request.comparison == nullptr) return {};
  const auto odd = FindOddResults(request.comparison->all);
  if (!odd) return {};
  return Fail(odd->With([&](ErrorDetails& d) {
    d.collective = request.comparison->of.ToString();
    d.sequence = request.comparison->of.sequence;
  }));
}

}  // namespace rondo
