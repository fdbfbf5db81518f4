// One operation's run: how it starts over whichever path serves it, how it is polled, and what is due at its end.
#include <utility>

#include "base/crc32c.h"
#include "collectives/communicator_core.h"
#include "collectives/integrity/result_digest.h"
#include "collectives/schedule/layout.h"

namespace rondo {

// The first operation of all waits until it is known whether there is a board: so all ranks take the same path.
Result<bool> CommunicatorCore::SettleBoard() {
  if (board_ == nullptr) {
    RONDO_ASSIGN(board_, endpoint_->OpenBoard());
    // A peer that has failed already answers with the reason.
    for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, {ControlKind::kHeartbeat, {}});
  }
  if (board_->state() == BoardState::kMaking) return false;  // if it has failed, CheckForFailure ends the waiting
  board_settled_ = true;
  if (board_->state() == BoardState::kReady) {
    runner_->UseBoard(*board_);
  } else {
    checker_.SetMayHaveBoard(false);
  }
  return true;
}

// Gives a request that was to go over the board another algorithm where there is none; on all ranks the same.
Status CommunicatorCore::Settle(OperationRequest& request) const {
  OperationDescriptor& d = request.descriptor;
  if (d.algorithm != Algorithm::kBoard || runner_->has_board()) return {};
  if (request.algorithm_is_asked)
    return Fail(ErrorCode::kUnsupported, "{}: there is no board: {}", d.ToString(), board_->why());
  RONDO_ASSIGN(const Selection instead, checker_.ChooseSchedule(request));
  d.algorithm = instead.algorithm;
  return {};
}

Result<bool> CommunicatorCore::StartNext() {
  if (!board_settled_) {
    RONDO_ASSIGN(const bool settled, SettleBoard());
    if (!settled) return false;
  }
  NoteTurns();
  events_seen_ = 0;  // what peers said before this operation is judged again in its light
  OperationRequest& request = queue_.Current().request;
  if (request.program != nullptr && !runner_->ServesDevices(request.descriptor)) [[unlikely]] {  // on no rank
    request.program->declined = "there is no board: " + board_->why();
    return true;
  }
  RONDO_TRY(Settle(request));
  if (request.staging != nullptr) {
    staging_.Start(request, *device_queue_);
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

OperationBuffers CommunicatorCore::UserBuffersOf(const OperationRequest& request, bool in_place) {
  OperationBuffers buffers;
  buffers.input = static_cast<const std::byte*>(request.input);
  buffers.output = static_cast<std::byte*>(request.output);
  // In place, the engine is given the larger.
  if (in_place && request.output_elements < request.input_elements)
    buffers.output -= request.own_at * SizeOf(request.type);
  if (request.counts != nullptr) buffers.counts = *request.counts;
  return buffers;
}

Result<OperationBuffers> CommunicatorCore::BuffersOf(const OperationRequest& request) {
  if (!request.wide()) return UserBuffersOf(request, request.in_place);
  RONDO_ASSIGN(OperationBuffers buffers,
               wide_partials_.Begin(request.input, request.input_elements, request.type, request.in_place));
  if (request.counts != nullptr) buffers.counts = *request.counts;
  return buffers;
}

// By the devices alone, which widen what they must on the way.
void CommunicatorCore::StartOnDevices(const OperationRequest& request) {
  std::string why;
  const bool in_place = request.is_in_place_for_user;
  runner_->StartOnDevices({.operation = request.on_user_elements(),
                           .buffers = UserBuffersOf(request, in_place),
                           .scale = request.scale,
                           .in_place = in_place},
                          device_queue_->peers(why), request.program);
}

Status CommunicatorCore::Begin(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  for (const auto& mover : movers_) mover->Use(request.user);
  for (DeviceReadingMover* const mover : reading_movers_) mover->Use(&staging_, staging_.input_of_window());
  RONDO_ASSIGN(const OperationBuffers buffers, BuffersOf(request));
  const Plan* plan = nullptr;
  if (d.algorithm != Algorithm::kBoard) {
    RONDO_ASSIGN(plan, PlanOf(request, request.in_place));
  }
  return runner_->Start(
      {.operation = d, .buffers = buffers, .scale = request.scale, .in_place = request.in_place, .plan = plan});
}

Result<const Plan*> CommunicatorCore::PlanOf(const OperationRequest& request, bool in_place) {
  const OperationDescriptor& d = request.descriptor;
  return plans_.Get({.collective = d.collective,
                     .algorithm = d.algorithm,
                     .world_size = world_size(),
                     .root = d.root,
                     .in_place = in_place,
                     .scaled = Reduces(d.collective) && d.op == ReduceOp::kPremulSum,
                     .hosts = d.algorithm == Algorithm::kHierarchical ? &checker_.place().hosts : nullptr},
                    /*averages=*/d.op == ReduceOp::kAvg);
}

Result<Progress> CommunicatorCore::PollCurrent() {
  if (staging_.running()) [[unlikely]]
    return PollOnDevices();
  if (!runner_->running()) [[unlikely]]
    return Progress::kComplete;  // it was declined when it started
  return runner_->Poll();
}

// Alike on all ranks. What a processor must see, or does, is done by way of the host: results that are compared, wide
// partials, functions of users.
bool CommunicatorCore::MayRunOnDevices(const OperationRequest& request) const {
  return options_.device_peers && request.devices_serve_type() && !request.compares && request.descriptor.count > 0 &&
         request.descriptor.algorithm == Algorithm::kBoard && runner_->ServesDevices(request.descriptor) &&
         !(runner_->devices_take_turns() &&
           request.descriptor.BytesOfAll(world_size()) <= options_.device_turns_host_bytes);
}

void CommunicatorCore::NoteTurns() {
  if (!runner_->devices_take_turns() || devices_take_turns_.exchange(true)) return;
  if (rank() == 0)
    Log(options_.logger, LogLevel::kWarning,
        "processes of this job share a GPU, which serves them by turns; NVIDIA's MPS has it serve them side by side "
        "(nvidia-cuda-mps-control -d, before they start)");
}

Result<Progress> CommunicatorCore::PollOnDevices() {
  RONDO_ASSIGN(const bool arrived, staging_.Arrive());
  if (!arrived) return Progress::kNothing;
  const auto goes_by = [&](DeviceWay way) {
    if (staging_.request().descriptor.count == 0) return;  // it goes nowhere
    if (device_way_.load(std::memory_order_relaxed) != way) device_way_.store(way, std::memory_order_release);
  };
  if (on_devices_ == OnDevices::kDeclined) {
    RONDO_ASSIGN(const bool stays, MayLeaveInput(staging_.request()));
    if (stays) staging_.LeaveInput();
    goes_by(stays ? DeviceWay::kAdapters : DeviceWay::kHost);
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
  NoteTurns();
  if (runner_->declined()) {
    on_devices_ = OnDevices::kDeclined;
    return Progress::kMoved;
  }
  goes_by(DeviceWay::kPeers);
  staging_.Finish();
  return progress;
}

Result<bool> CommunicatorCore::MayLeaveInput(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  if (!request.adapters_know_input || d.algorithm == Algorithm::kBoard || options_.checksums || request.wide() ||
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
      RONDO_ASSIGN(const Lane* const lane, endpoint_->Open(taker, rail));
      if (lane->state() != LaneState::kOpen || !lane->sends_device_memory()) return false;
    }
  return true;
}

Result<Progress> CommunicatorCore::PollStaged() {
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

Error CommunicatorCore::InOperation(const Error& found) const {
  return OnDevice(found).With([&](ErrorDetails& d) {
    const OperationDescriptor operation = RunningOperation();
    if (d.collective.empty()) d.collective = operation.ToString();
    if (!d.sequence) d.sequence = operation.sequence;
  });
}

void CommunicatorCore::CompleteCurrent() {
  const OperationRequest& request = queue_.Current().request;
  if (request.staging != nullptr) return device_queue_->Leave(request.descriptor.sequence);
  End(request);
}

void CommunicatorCore::End(const OperationRequest& request) {
  const std::uint64_t first = request.output_elements < request.input_elements ? request.own_at : 0;
  const bool is_widened_here = request.wide() && request.program == nullptr;  // and not by the devices, in a graph
  if (is_widened_here) wide_partials_.End(request.output, first, request.output_elements, request.type);
  if (request.compares) [[unlikely]] {  // before the memory is the user's again
    request.comparison->of = request.descriptor;
    request.comparison->own =
        Crc32c(Bytes(static_cast<const std::byte*>(request.output), request.output_elements * SizeOf(request.type)),
               request.comparison->own);
  }
}

Status CommunicatorCore::CompareResults() {
  const OperationRequest& request = queue_.Current().request;
  if (request.compares || request.comparison == nullptr) return {};
  const auto odd = FindOddResults(request.comparison->all);
  if (!odd) return {};
  return Fail(odd->With([&](ErrorDetails& d) {
    d.collective = request.comparison->of.ToString();
    d.sequence = request.comparison->of.sequence;
  }));
}

}  // namespace rondo
