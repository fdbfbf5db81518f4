// What suspicion_ is asked while operations are pending, and with which facts.
#include <fmt/core.h>

#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

bool CommunicatorCore::CheckForFailure(TimePoint now, Sequence waited) {
  return failure_.Guard("checking for failures", [&] { return CheckAll(now, waited); });
}

bool CommunicatorCore::CheckAll(TimePoint now, Sequence waited) {
  if (failure_.has_failed()) return false;
  if (graphs_.Check()) return true;
  if (peer_events_.count() != events_seen_ && CheckPeers()) return true;
  if (peers_.has_ended_before() && peer_events_.AskForKeptGoodbyes()) return true;

  if (messages_.in_use() && messages_.EndDeparted()) return true;
  for (const auto& mover : movers_) {
    if (!mover->failure()) continue;
    failure_.Begin(WithCulprit(ErrorCode::kAborted, fmt::format("rank {}: {}", rank(), *mover->failure()), rank()));
    return true;
  }

  if (const auto failed = FindLaneFailure()) {
    if (CheckParentFailure()) return true;
    // A lane that failed because its peer has left, though this rank may only send on it.
    if (const auto own = failed->of_collective ? OwnNow() : std::nullopt) {
      if (auto left = suspicion_.JudgePeer(failed->peer, peers_.ViewOf(failed->peer), /*is_awaited=*/true, *own)) {
        failure_.Begin(*std::move(left));
        return true;
      }
    }
    if (auto verdict = suspicion_.JudgeLaneFailure(*failed, now); verdict.error) {
      failure_.Begin(*std::move(verdict.error));
      return true;
    }
  }
  if (suspicion_.OnBlocked(now)) {
    if (auto mismatched = runner_->FindMismatchedPeer()) {
      failure_.Begin(*std::move(mismatched));
      return true;
    }
    if (CheckParentFailure()) return true;
    SendProgressReports();
  }
  return CheckClock(now, waited);
}

std::optional<LaneFailure> CommunicatorCore::FindLaneFailure() {
  if (const auto of_collective = runner_->Failure())
    return LaneFailure{of_collective->peer, of_collective->error, /*of_collective=*/true};
  if (const auto of_message = messages_.FindLaneFailure()) return LaneFailure{of_message->peer, of_message->error};
  if (IsSettlingBoard() && board_->failure() != nullptr)
    return LaneFailure{board_->failure()->culprit(), board_->failure()};
  if (const Error* const lost = peers_.early_loss(); lost != nullptr) return LaneFailure{lost->culprit(), lost};
  return std::nullopt;
}

TimePoint CommunicatorCore::DeadlineOf(Sequence sequence) {
  return suspicion_.ReportTime(sequence, queue_.At(sequence).deadline, IsSettlingBoard());
}

bool CommunicatorCore::CheckDeadlines(TimePoint now, Sequence waited) {
  return failure_.Guard("checking deadlines", [&] { return CheckClock(now, waited); });
}

bool CommunicatorCore::CheckClock(TimePoint now, Sequence waited) {
  if (now >= messages_.next_deadline() && messages_.Expire(now)) return true;
  const PendingOperations pending{.first = queue_.current(), .last = queue_.issued(), .waited = waited};
  const auto late = suspicion_.FindLate(pending, now, [&](Sequence sequence) { return DeadlineOf(sequence); });
  if (!late) return false;
  auto verdict = suspicion_.JudgeLate(LateAt(queue_.At(*late)), *late == pending.first, BlockedPeers(), now);
  if (!verdict.error) return false;
  failure_.Begin(*std::move(verdict.error));
  return true;
}

LateOperation CommunicatorCore::LateAt(const OperationQueue::Operation& operation) const {
  LateOperation late{.descriptor = operation.request.descriptor,
                     .deadline = operation.deadline,
                     .timeout = operation.request.timeout,
                     .names_rails = options_.rails > 1};
  if (staging_.running())
    late.local_wait = fmt::format("{} {}{}", staging_.has_arrived() ? "copies of" : "what was on its stream of",
                                  device_queue_->name(), staging_.has_arrived() ? "" : " before");
  return late;
}

std::optional<OwnOperation> CommunicatorCore::OwnNow() {
  // An operation that waits for the board does not run yet, but it waits for all ranks.
  const bool is_joining = IsSettlingBoard();
  if (!runner_->running() && !is_joining) return std::nullopt;
  const OperationDescriptor& descriptor = is_joining ? queue_.Current().request.descriptor : RunningOperation();
  // The board's turns need all ranks, sooner or later; and ranks other than 0 learn of a goodbye only from rank 0.
  return OwnOperation{.descriptor = descriptor,
                      .is_joining = is_joining,
                      .needs_all = is_joining || descriptor.algorithm == Algorithm::kBoard};
}

bool CommunicatorCore::CheckPeers() {
  const auto own = OwnNow();
  if (!own) return false;
  events_seen_ = peer_events_.count();
  auto found = peers_.FirstError([&](Rank peer, const PeerView& view) {
    const bool is_awaited = view.goodbye && runner_->WaitsFor(peer);
    return suspicion_.JudgePeer(peer, view, is_awaited, *own);
  });
  if (!found) return false;
  failure_.Begin(*std::move(found));
  return true;
}

void CommunicatorCore::SendProgressReports() {
  if (!runner_->running()) return;
  const ControlMessage message{ControlKind::kHeartbeat, Encode(ProgressReport{RunningOperation()})};
  for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, message);
}

std::vector<BlockedOn> CommunicatorCore::BlockedPeers() const {
  std::vector<BlockedOn> blocked;
  for (const BlockedStep& step : runner_->Blocked()) blocked.push_back({.step = step});
  if (IsSettlingBoard()) {
    for (const Rank peer : board_->Missing()) blocked.push_back({.step = {.peer = peer}, .is_joining = true});
  }
  for (BlockedOn& on : blocked) {
    on.is_connected = runner_->has_board() || endpoint_->IsConnected(on.step.peer);
    if (!on.step.started) on.path = endpoint_->DescribePeer(on.step.peer);
    on.last_received_at = peers_.ViewOf(on.step.peer).last_received_at;
  }
  return blocked;
}

}  // namespace rondo
