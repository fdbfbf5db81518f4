#include "collectives/communicator/failure_detector.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "collectives/communicator/control.h"
#include "collectives/communicator/peer_errors.h"

namespace rondo {

bool FailureDetector::Check(TimePoint now, Sequence waited) {
  return near_.failure.Guard("checking for failures", [&] { return CheckAll(now, waited); });
}

bool FailureDetector::CheckDeadlines(TimePoint now, Sequence waited) {
  return near_.failure.Guard("checking deadlines", [&] { return CheckClock(now, waited); });
}

bool FailureDetector::CheckAll(TimePoint now, Sequence waited) {
  if (near_.failure.has_failed()) return false;
  if (near_.graphs.Check()) return true;
  if (near_.peer_events.count() != events_seen_ && CheckPeers()) return true;
  if (near_.peers.has_ended_before() && near_.peer_events.AskForKeptGoodbyes()) return true;
  if (near_.messages.in_use() && near_.messages.EndDeparted()) return true;
  if (const std::string* const thrown = near_.current.FindUserFailure(); thrown != nullptr) {
    const Rank self = near_.names.self();
    near_.failure.Begin(WithCulprit(ErrorCode::kAborted, fmt::format("rank {}: {}", self, *thrown), self));
    return true;
  }
  if (CheckLanes(now)) return true;
  if (near_.suspicion.OnBlocked(now)) {
    if (auto mismatched = near_.current.runner().FindMismatchedPeer()) {
      near_.failure.Begin(*std::move(mismatched));
      return true;
    }
    if (near_.listener.CheckParentFailure()) return true;
    SendProgressReports();
  }
  return CheckClock(now, waited);
}

// ---- peers ----

std::optional<OwnOperation> FailureDetector::OwnNow() {
  // An operation that waits for the shared segment does not run yet, but it waits for all ranks.
  const bool is_joining = near_.current.is_joining();
  if (!near_.current.runner().running() && !is_joining) return std::nullopt;
  const OperationDescriptor& descriptor =
      is_joining ? near_.queue.Current().request.descriptor : near_.current.operation();
  // An operation on the shared segment needs all ranks, now or later. Ranks other than 0 are connected to rank 0 only,
  // and depend on its report that a rank has left.
  return OwnOperation{.descriptor = descriptor,
                      .is_joining = is_joining,
                      .needs_all = is_joining || descriptor.algorithm == Algorithm::kIntranode};
}

bool FailureDetector::CheckPeers() {
  const auto own = OwnNow();
  if (!own) return false;
  events_seen_ = near_.peer_events.count();
  auto found = near_.peers.FirstError([&](Rank peer, const PeerView& view) {
    const bool is_awaited = view.goodbye && near_.current.runner().WaitsFor(peer);
    return near_.suspicion.JudgePeer(peer, view, is_awaited, *own);
  });
  if (!found) return false;
  near_.failure.Begin(*std::move(found));
  return true;
}

void FailureDetector::SendProgressReports() {
  if (!near_.current.runner().running()) return;
  const ControlMessage message{ControlKind::kHeartbeat, Encode(ProgressReport{near_.current.operation()})};
  for (const Rank peer : near_.endpoint->ControlPeers()) near_.endpoint->SendControl(peer, message);
}

// ---- lanes ----

bool FailureDetector::CheckLanes(TimePoint now) {
  const auto failed = FindLaneFailure();
  if (!failed) return false;
  if (near_.listener.CheckParentFailure()) return true;
  // Perhaps the lane failed because its peer has left. This is possible even if this rank only sends on that lane.
  if (const auto own = failed->of_collective ? OwnNow() : std::nullopt) {
    const PeerView view = near_.peers.ViewOf(failed->peer);
    if (auto left = near_.suspicion.JudgePeer(failed->peer, view, /*is_awaited=*/true, *own)) {
      near_.failure.Begin(*std::move(left));
      return true;
    }
  }
  auto verdict = near_.suspicion.JudgeLaneFailure(*failed, now);
  if (!verdict.error) return false;
  near_.failure.Begin(*std::move(verdict.error));
  return true;
}

std::optional<LaneFailure> FailureDetector::FindLaneFailure() const {
  if (const auto of_collective = near_.current.runner().Failure())
    return LaneFailure{of_collective->peer, of_collective->error, /*of_collective=*/true};
  if (const auto of_message = near_.messages.FindLaneFailure()) return LaneFailure{of_message->peer, of_message->error};
  if (near_.current.is_joining()) {
    const Error* const failed = near_.current.segment().failure();
    if (failed != nullptr) return LaneFailure{failed->culprit(), failed};
  }
  if (const Error* const lost = near_.peers.early_loss(); lost != nullptr) return LaneFailure{lost->culprit(), lost};
  return std::nullopt;
}

// ---- deadlines ----

TimePoint FailureDetector::ReportTime(Sequence sequence) {
  return near_.suspicion.ReportTime(sequence, near_.queue.At(sequence).deadline, near_.current.is_joining());
}

bool FailureDetector::CheckClock(TimePoint now, Sequence waited) {
  if (now >= near_.messages.next_deadline() && near_.messages.Expire(now)) return true;
  const PendingOperations pending{.first = near_.queue.current(), .last = near_.queue.issued(), .waited = waited};
  const auto late = near_.suspicion.FindLate(pending, now, [&](Sequence sequence) { return ReportTime(sequence); });
  if (!late) return false;
  auto verdict = near_.suspicion.JudgeLate(LateAt(near_.queue.At(*late)), *late == pending.first, BlockedPeers(), now);
  if (!verdict.error) return false;
  near_.failure.Begin(*std::move(verdict.error));
  return true;
}

LateOperation FailureDetector::LateAt(const OperationQueue::Operation& operation) const {
  return {.descriptor = operation.request.descriptor,
          .deadline = operation.deadline,
          .timeout = operation.request.timeout,
          .local_wait = near_.current.LocalWait(),
          .names_rails = names_rails_};
}

std::vector<BlockedOn> FailureDetector::BlockedPeers() const {
  const Runner& runner = near_.current.runner();
  std::vector<BlockedOn> blocked;
  for (const BlockedStep& step : runner.Blocked()) blocked.push_back({.step = step});
  if (near_.current.is_joining()) {
    for (const Rank peer : near_.current.segment().Missing())
      blocked.push_back({.step = {.peer = peer}, .is_joining = true});
  }
  for (BlockedOn& on : blocked) {
    on.is_connected = runner.has_segment() || near_.endpoint->IsConnected(on.step.peer);
    if (!on.step.started) on.path = near_.endpoint->DescribePeer(on.step.peer);
    on.last_received_at = near_.peers.ViewOf(on.step.peer).last_received_at;
  }
  return blocked;
}

}  // namespace rondo
