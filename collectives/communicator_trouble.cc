// Failure: what suspicion_ is asked, the first cause, and the notices to peers.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

// ---- checks ----

bool CommunicatorCore::CheckForFailure(TimePoint now, Sequence waited) {
  return OrPoison("looking for trouble", [&] { return CheckAll(now, waited); });
}

bool CommunicatorCore::CheckAll(TimePoint now, Sequence waited) {
  if (failure_.has_failed()) return false;
  if (LookAtGraphs()) return true;
  if (words_.load(std::memory_order_acquire) != words_seen_ && CheckPeers()) return true;
  if (peers_.has_ended_before() && AskForKeptGoodbyes()) return true;

  if (submissions_.in_use() && LookAtMessages()) return true;
  for (const auto& mover : movers_) {
    if (!mover->failure()) continue;
    Poison(WithCulprit(ErrorCode::kAborted, fmt::format("rank {}: {}", rank(), *mover->failure()), rank()));
    return true;
  }

  if (const auto failed = FindLaneFailure()) {
    if (CheckParentFailure()) return true;
    // A lane that failed because its peer has left, though this rank may only send on it.
    if (const auto own = failed->of_collective ? OwnNow() : std::nullopt) {
      if (auto left = suspicion_.JudgePeer(failed->peer, peers_.ViewOf(failed->peer), /*is_awaited=*/true, *own)) {
        Poison(*std::move(left));
        return true;
      }
    }
    if (auto verdict = suspicion_.JudgeLaneFailure(*failed, now); verdict.error) {
      Poison(*std::move(verdict.error));
      return true;
    }
  }
  if (suspicion_.OnBlocked(now)) {
    if (auto stranger = runner_->FindMismatchedPeer()) {
      Poison(*std::move(stranger));
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
  if (const auto of_message = messages_->FindTrouble()) return LaneFailure{of_message->peer, of_message->error};
  if (IsSettlingBoard() && board_->failure() != nullptr)
    return LaneFailure{board_->failure()->culprit(), board_->failure()};
  if (const Error* const lost = peers_.early_loss(); lost != nullptr) return LaneFailure{lost->culprit(), lost};
  return std::nullopt;
}

TimePoint CommunicatorCore::DeadlineOf(Sequence sequence) {
  return suspicion_.ReportTime(sequence, queue_.At(sequence).deadline, IsSettlingBoard());
}

bool CommunicatorCore::CheckDeadlines(TimePoint now, Sequence waited) {
  return OrPoison("looking at deadlines", [&] { return CheckClock(now, waited); });
}

bool CommunicatorCore::CheckClock(TimePoint now, Sequence waited) {
  if (now >= messages_->next_deadline()) {
    auto late = messages_->Expire(now);
    const bool settled = SettleMessages();
    const bool expired = late.has_value();
    if (expired) Poison(*std::move(late));
    if (expired || settled) return true;
  }
  const PendingOperations pending{.first = queue_.current(), .last = queue_.issued(), .waited = waited};
  const auto late = suspicion_.FindLate(pending, now, [&](Sequence sequence) { return DeadlineOf(sequence); });
  if (!late) return false;
  auto verdict = suspicion_.JudgeLate(LateAt(queue_.At(*late)), *late == pending.first, BlockedPeers(), now);
  if (!verdict.error) return false;
  Poison(*std::move(verdict.error));
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
  words_seen_ = words_.load(std::memory_order_acquire);
  auto found = peers_.FirstError([&](Rank peer, const PeerView& view) {
    const bool is_awaited = view.goodbye && runner_->WaitsFor(peer);
    return suspicion_.JudgePeer(peer, view, is_awaited, *own);
  });
  if (!found) return false;
  Poison(*std::move(found));
  return true;
}

bool CommunicatorCore::AskForKeptGoodbyes() {
  bool asked = false;
  std::optional<Error> no_answer;
  for (auto& [peer, error] : peers_.TakeEndedBefore()) {
    asked = true;
    // After one question without an answer no other is asked: each may take kKeptGoodbyeLimit.
    Result<std::optional<std::string>> kept =
        no_answer ? Fail(*no_answer) : options_.kept_goodbyes->Find(options_.id, peer);
    if (!kept) no_answer = kept.error();
    if (auto goodbye = kept && *kept ? DecodeGoodbye(**kept) : std::nullopt) {
      TakeGoodbye(peer, *std::move(goodbye));
      continue;
    }
    const std::string place = options_.kept_goodbyes->Describe();
    const std::string more =
        kept ? fmt::format("It has left no goodbye in {}", place)
             : fmt::format("Whether it has left a goodbye in {} is not known: {}", place, kept.error().message());
    OnPeerLost(peer, error.With([&](ErrorDetails& d) { d.message += ". " + more; }));
  }
  return asked;
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

// ---- failure ----

Error CommunicatorCore::WithIdentity(Error error) const {
  if (error.code() == ErrorCode::kOutOfMemory && error.culprit() == kNoRank)  // whoever it is told to, it was here
    error = error.With([&](ErrorDetails& d) { d.culprit = rank(); });
  const Rank culprit = error.culprit();
  if (culprit < 0 || culprit >= world_size() || !error.details().host.empty()) return error;
  return error.With([&](ErrorDetails& d) { d.host = options_.peers[static_cast<std::size_t>(culprit)].host; });
}

Error CommunicatorCore::FramedError(const Error& error) const {
  if (options_.frame == nullptr || error.details().frame != nullptr) return error;
  const RankFrame& frame = *options_.frame;
  Error framed = error;
  IfMemoryAllows([&] {
    framed = error.With([&](ErrorDetails& d) {
      d.message = frame.Reword(d.message);
      d.collective = frame.Reword(d.collective);
      // A parent's words name its own ranks, and did so before they came here.
      if (d.message != kParentFailed) d.first_cause = frame.Reword(d.first_cause);
      d.frame = options_.frame;
    });
  });
  return framed;
}

// Where there is no memory for the words of it, it fails all the same: peers then learn it by their lanes, which end.
void CommunicatorCore::Poison(Error error, std::optional<Rank> origin) noexcept {
  IfMemoryAllows([&] { error = WithIdentity(error); });
  const Rank reporter = origin.value_or(rank());
  // Graphs end whether or not a thread drives. A queue that is made just now is found by EndAfterFailure.
  const auto end_graphs = [&] {
    if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) queue->EndGraphs();
  };
  if (!failure_.Begin(error, reporter, clock_->Now(), end_graphs)) return;
  if (!IfMemoryAllows([&] { NotifyPeers(error, reporter); }))
    IfMemoryAllows([&] { NotifyPeers(Error::MemoryRanOut(), rank()); });
  failure_.OnPeersNotified();
  WakeOwner();
}

void CommunicatorCore::NotifyPeers(const Error& error, Rank reporter) {
  const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(error, reporter))};
  const std::lock_guard lock(endpoint_mutex_);
  if (endpoint_ == nullptr) return;
  peers_.SendOnce(&Peer::is_notified, endpoint_->ControlPeers(),
                  [&](Rank peer) { return endpoint_->SendControl(peer, notice); });
}

void CommunicatorCore::OnControl(Rank from, ControlMessage message) {
  peers_.OnReceived(from, clock_->Now());
  switch (message.kind) {
    case ControlKind::kHeartbeat: {
      // The answer to a peer that sends to a failed communicator, because it is late for instance, is the cause.
      if (const auto failed = failure()) {
        const std::lock_guard lock(endpoint_mutex_);
        if (endpoint_ == nullptr) return;
        const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(*failed, failure_.reporter()))};
        if (endpoint_->SendControl(from, notice)) peers_.OnNotified(from);
        return;
      }
      if (IsLaneCall(message.body)) return submissions_.OnPeerCall(from);
      const auto report = DecodeProgressReport(message.body);
      if (!report) return;  // the peer has only opened a lane
      peers_.OnReport(from, *report);
      words_.fetch_add(1, std::memory_order_release);
      return;
    }
    case ControlKind::kGoodbye: {
      auto goodbye = DecodeGoodbye(message.body);
      if (!goodbye) break;
      return TakeGoodbye(from, *std::move(goodbye));
    }
    case ControlKind::kAbort: {
      const auto notice = DecodeAbortNotice(message.body);
      if (!notice) break;
      peers_.OnFailureNotice(from);
      failure_.OnNotice();
      // Repeated as it is: whom it convicts must hear who found it, not who came by.
      Poison(ErrorOf(*notice, rank()), notice->origin);
      return;
    }
  }
  Poison(WithCulprit(ErrorCode::kProtocol, fmt::format("rank {} sent an unreadable control message", from), from));
}

void CommunicatorCore::TakeGoodbye(Rank from, Goodbye goodbye) {
  peers_.OnGoodbye(from, std::move(goodbye));
  words_.fetch_add(1, std::memory_order_release);
  WakeOwner();
}

void CommunicatorCore::WakeOwner() {
  {
    const std::lock_guard lock(endpoint_mutex_);
    if (endpoint_ == nullptr) return;
    endpoint_->Wake();
  }
  progress_.lock().Announce();
}

void CommunicatorCore::OnPeerEndedBefore(Rank peer, Error error) {
  if (options_.kept_goodbyes == nullptr) return OnPeerLost(peer, std::move(error));
  if (AdoptParentFailure()) return;
  peers_.OnEndedBefore(peer, std::move(error));
  WakeOwner();
}

void CommunicatorCore::OnPeerLost(Rank peer, Error error) {
  if (AdoptParentFailure()) return;                               // it is not lost: it gave its group up
  if (error.code() == ErrorCode::kPeerLost) peers_.OnLost(peer);  // not if it merely cannot be reached
  error = Suspicion::AttributeLoss(error, peer, rank());
  if (error.culprit() == rank() || !IsNewGroup()) return Poison(std::move(error));
  if (peers_.KeepEarlyLoss(std::move(error))) WakeOwner();
}

void CommunicatorCore::OnTransportFailed(const Error& error) { Poison(error); }

// What this rank knows of the operation that `error` has ended here; null: none was running.
Error CommunicatorCore::WithPlace(const Error& error, const OperationDescriptor* operation,
                                  const std::vector<BlockedStep>& blocked) const {
  return error.With([&](ErrorDetails& d) {
    d.rank = rank();
    if (operation == nullptr) return;
    if (d.collective.empty()) d.collective = operation->ToString();
    if (!d.sequence) d.sequence = operation->sequence;
    if (d.sequence != operation->sequence) return;  // of another operation, which has no step here
    auto at = std::find_if(blocked.begin(), blocked.end(), [&](const BlockedStep& s) { return s.peer == d.culprit; });
    if (at == blocked.end()) at = blocked.begin();
    if (at == blocked.end() || d.step) return;
    d.step = at->step;
    d.bytes_done = at->bytes_done;
    d.bytes_due = at->bytes_due;
  });
}

void CommunicatorCore::EndAfterFailure() noexcept {
  failure_.BeginEnd();
  // Again, for an operation that began as the failure came has connected others, who wait for this rank from now on.
  IfMemoryAllows([&] { NotifyPeers(*failure(), failure_.reporter()); });
  // The order matters: first nobody can reach the buffers, then the waiters learn that they are theirs again.
  endpoint_->Revoke();
  std::vector<BlockedStep> blocked;
  IfMemoryAllows([&] { blocked = runner_->Blocked(); });
  const bool running = IsRunning();
  const OperationDescriptor operation = RunningOperation();  // of the board it is forgotten when that is drained
  runner_->Drain();
  staging_.Drain();
  IfMemoryAllows([&] {
    failure_.RefineCause([&](const Error& known) { return WithPlace(known, running ? &operation : nullptr, blocked); });
  });
  const Error cause = *failure();
  records_.OnFailure(cause, running);
  EndMessages(cause);
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) {
    queue->EndGraphs();  // which Poison cannot, where the queue was just being made
    queue->LeaveForGood();
  }
  failure_.End();
  progress_.lock().Announce();
  IfMemoryAllows([&] { WriteRecordsOfFailure(); });  // whoever waits has been told already
}

}  // namespace rondo
