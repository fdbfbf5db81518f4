// Operations in graphs: they are run once when they are captured, to agree on them and to find each other's memory, and
// what the devices are to do is put on the stream. From then on they need no host.
#include <fmt/format.h>

#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {

// What is refused here is refused on all ranks alike: none of them waits for another one.
Status CommunicatorCore::PrepareForGraph(OperationRequest& request) {
  OperationDescriptor& d = request.descriptor;
  const auto refuse = [&](std::string_view why) {
    return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", d.ToString(), why);
  };
  if (!request.devices_serve_type() || request.compares) return refuse("processors widen or compare its results");
  if (request.user != nullptr) return refuse("no device knows a function of a user");
  if (world_size() > 1) {
    if (!options_.device_peers) return refuse("device_peers is off");
    if (d.algorithm != Algorithm::kBoard || !checker_.may_have_board())
      return refuse("it goes by way of the hosts; among devices it takes ranks that share one, and equal counts");
    if (static_cast<std::size_t>(world_size()) > DeviceFold::kMostOperands)
      return refuse(fmt::format("more than {} ranks", DeviceFold::kMostOperands));
  }
  // What is missing from here on is this rank's, and told to the others by its vote.
  std::string why;
  if (DevicePeers* const peers = device_queue_->peers(why); peers != nullptr) {
    if (const auto place = peers->MeetingPlace(); !place) why = place.error().message();
  }
  if (!why.empty())
    Log(options_.logger, LogLevel::kWarning, "{}: {} takes no part in operations in graphs: {}", names_.NameOf(rank()),
        device_queue_->name(), why);
  d.in_graph = true;
  program_ = {.rank = rank(), .timeout = request.timeout};
  request.program = &program_;
  return {};
}

Result<Sequence> CommunicatorCore::IssueIntoGraph(OperationRequest& request) {
  // Whether there is a board is then known alike on all ranks, or on none.
  if (world_size() > 1) RONDO_TRY(WaitForGood(queue_.issued()));
  RONDO_TRY(PrepareForGraph(request));
  Sequence sequence = queue_.completed();  // of a world of one, in which nothing is issued
  if (world_size() == 1) {
    RONDO_TRY(MayIssue());
    RONDO_TRY(WriteProgramOfOne(request));
  } else {
    RONDO_ASSIGN(sequence, Issue(request));
    RONDO_TRY(WaitForGood(sequence));
    if (!program_.declined.empty())
      return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", request.descriptor.ToString(),
                  program_.declined);
  }
  program_.operation = sequence;
  graphs_.Watch(*device_queue_);
  if (const Status captured = device_queue_->Capture(request.stream, program_); !captured) {
    if (world_size() > 1) failure_.Begin(OnDevice(captured.error()));  // the others have it in their graphs
    return Fail(captured.error());
  }
  return sequence;
}

Status CommunicatorCore::WriteProgramOfOne(const OperationRequest& request) {
  std::string why;
  DevicePeers* const peers = device_queue_->peers(why);
  if (peers == nullptr)
    return Fail(ErrorCode::kUnsupported, "{} cannot be captured into a graph: {}", request.descriptor.ToString(), why);
  RONDO_ASSIGN(const std::byte* const place, peers->MeetingPlace());
  program_.places = {const_cast<std::byte*>(place)};
  if (request.input_elements == 0 || request.output_elements == 0) return {};
  if (!Reduces(request.descriptor.collective)) {
    program_.copies = {{static_cast<std::byte*>(request.output), static_cast<const std::byte*>(request.input),
                        request.output_elements * SizeOf(request.type)}};
    return {};
  }
  DeviceFold fold{.destination = static_cast<std::byte*>(request.output),
                  .count = 1,
                  .elements = request.output_elements,
                  .type = request.type,
                  .op = request.descriptor.op,
                  .divisor = request.descriptor.op == ReduceOp::kAvg ? 1 : 0};
  fold.operands[0] = static_cast<const std::byte*>(request.input);
  fold.scales[0] = request.scale;
  program_.folds = {fold};
  return {};
}

}  // namespace rondo
