// Operations in graphs: they are run once when they are captured, to agree on them and to find each other's memory, and
// what the devices are to do is put on the stream. From then on they need no host.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "collectives/communicator/peer_errors.h"
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
  has_graphs_.store(true);
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

bool CommunicatorCore::LookAtGraphs() {
  if (!has_graphs_.load(std::memory_order_acquire) || failure_.has_failed()) return false;
  const auto trouble = device_queue_seen_.load()->TroubleOfGraphs();
  if (!trouble) return false;
  // The GPUs have told each other faster than the hosts do, one of which knows why.
  const bool told_why = !trouble->missing.empty() || !trouble->strayed.empty();
  const GracePeriods& graces = suspicion_.graces();
  const auto checks = graces.graph_failure_cause / graces.notice_check_interval;
  for (int check = 0; !told_why && !failure_.has_failed() && check < checks; ++check)
    progress_.lock().Rest(graces.notice_check_interval, [&] { return failure_.has_failed(); });
  failure_.Begin(InGraphs(*trouble));
  return true;
}

Error CommunicatorCore::InGraphs(const GraphTrouble& trouble) const {
  if (!trouble.missing.empty())
    return WithCulprit(ErrorCode::kTimeout,
                       fmt::format("in a launched graph, in what was captured as #{}, rank {} did not come within the "
                                   "timeout, as rank {} found",
                                   trouble.operation, fmt::join(trouble.missing, ", "), rank()),
                       trouble.missing.front());
  if (trouble.strayed.empty())
    return Error(ErrorCode::kPeerAborted, "another rank has ended all launched graphs, and has not said why");
  const auto knows = [](const GraphTrouble::Stray& one) { return one.operation != 0; };
  const auto known = std::find_if(trouble.strayed.begin(), trouble.strayed.end(), knows);
  const GraphTrouble::Stray& stray = known != trouble.strayed.end() ? *known : trouble.strayed.front();
  const std::string there =
      stray.operation != 0 ? fmt::format("#{}", stray.operation) : std::string("another, as others have found");
  return WithCulprit(
      ErrorCode::kMismatch,
      fmt::format("the ranks launch different graphs: rank {} is in what was captured as #{}, rank {} in {}", rank(),
                  trouble.operation, stray.rank, there),
      stray.rank);
}

}  // namespace rondo
