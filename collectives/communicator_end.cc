// How a core ends: failure, abort, close, destruction.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

// ---- failure ----

// Graphs end whether or not a thread drives. A queue that is made just now is found by EndAfterFailure.
void CommunicatorCore::OnFailing() {
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) queue->EndGraphs();
}

void CommunicatorCore::EndAfterFailure() noexcept {
  failure_.BeginEnd();
  // The order matters: first nobody can reach the buffers, then the waiters learn that they are theirs again.
  endpoint_->Revoke();
  std::vector<BlockedStep> blocked;
  IfMemoryAllows([&] { blocked = runner_->Blocked(); });
  const bool running = IsRunning();
  const OperationDescriptor operation = RunningOperation();  // of the board it is forgotten when that is drained
  runner_->Drain();
  staging_.Drain();
  IfMemoryAllows([&] {
    failure_.RefineCause(
        [&](const Error& known) { return WithOperation(known, rank(), running ? &operation : nullptr, blocked); });
  });
  const Error cause = *failure();
  records_.OnFailure(cause, running);
  messages_.FailAll(cause);
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) {
    queue->EndGraphs();  // which OnFailing cannot, where the queue was just being made
    queue->LeaveForGood();
  }
  failure_.End();
  progress_.lock().Announce();
  IfMemoryAllows([&] { WriteRecordsOfFailure(); });  // whoever waits has been told already
}

// ---- abort and close ----

// One after the other, and not all of them under the lock: a child's end may call functions of the user.
void CommunicatorCore::AbortChildren(std::string_view reason) {
  while (true) {
    const auto child = children_.Find([](const CommunicatorCore& one) { return !one.failure_.has_failed(); });
    if (child == nullptr) return;
    child->Abort(reason);
  }
}

void CommunicatorCore::Abort(std::string_view reason) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows(
      [&] { error = WithCulprit(ErrorCode::kAborted, fmt::format("rank {} aborted: {}", rank(), reason), rank()); });
  failure_.Begin(std::move(error));
  AbortChildren(reason);
  ProgressOnce();  // where nobody drives, end here and now; where somebody does, he has been woken
}

void CommunicatorCore::NoteRefusal(std::string_view call) {
  const std::lock_guard lock(mutex_);
  refused_call_ = call;
  refused_after_ = queue_.issued();
}

std::string CommunicatorCore::RefusedAfter(Sequence last) const {
  const std::lock_guard lock(mutex_);
  return refused_after_ == last ? refused_call_ : "";
}

// The exchange is over when one check finds that all connected peers have sent their goodbyes, and the next one that
// this rank has sent its own to all: a peer that connects or leaves between the two is found by the check after them.
bool CommunicatorCore::ExchangeGoodbyes() {
  const bool received_all = PeersWithoutGoodbye().empty();
  // On a board a rank may have checked few others, and is connected to rank 0 alone. So rank 0 sends no goodbye before
  // it has compared what all ranks did last.
  if (rank() == 0 && runner_->has_board()) {
    if (auto waits = FindPeerInLaterOperation()) {
      failure_.Begin(*std::move(waits));
      return true;
    }
    if (!received_all) return false;
    if (FindMismatchedGoodbye()) return true;
  }
  return !SendGoodbyes() && received_all;
}

ControlMessage CommunicatorCore::OwnGoodbye() {
  Goodbye goodbye;
  goodbye.last = queue_.LastCompleted();
  goodbye.refused = RefusedAfter(goodbye.last.sequence);
  return {ControlKind::kGoodbye, Encode(goodbye)};
}

bool CommunicatorCore::SendGoodbyes() {
  const ControlMessage message = OwnGoodbye();
  return peers_.SendOnce(&Peer::goodbye_sent, endpoint_->ControlPeers(),
                         [&](Rank peer) { return endpoint_->SendControl(peer, message); });
}

std::optional<Error> CommunicatorCore::FindMismatchedGoodbye() {
  const OperationDescriptor last = queue_.LastCompleted();
  return peers_.FirstError([&](Rank peer, const PeerView& view) { return suspicion_.JudgeGoodbye(peer, view, last); });
}

// Such peers get no goodbye from rank 0 while it waits for theirs, but they send progress reports.
std::optional<Error> CommunicatorCore::FindPeerInLaterOperation() {
  const OperationDescriptor last = queue_.LastCompleted();
  const std::string refused = RefusedAfter(last.sequence);
  return peers_.FirstError(
      [&](Rank peer, const PeerView& view) { return suspicion_.JudgeReportInClose(peer, view, last, refused); });
}

Status CommunicatorCore::Close() { return CloseWithin(options_.timeout); }

Status CommunicatorCore::Leave(Duration patience) {
  leaving_.store(true);
  return CloseWithin(std::min(patience, options_.timeout));
}

Status CommunicatorCore::CloseWithin(Duration time) {
  {
    const std::lock_guard lock(mutex_);
    if (close_status_) return *close_status_;
  }
  const TimePoint began = clock_->Now();
  TimePoint until = Later(began, time);
  const auto part = [&] { return failure_.GuardCall("closing", [&] { return PartBy(began, until); }); };
  Status status = part();
  const auto is_late = [&] { return !status && status.error().code() == ErrorCode::kNotReady; };
  if (is_late() && OthersSpeakFirst()) {
    until = Later(until, suspicion_.graces().timeout_report_delay);
    status = part();
  }
  if (is_late() && !FailWhatIsLeft(time)) status = part();  // it has ended just now
  // Whatever it is that has failed, nobody but launched graphs touches any buffer any more when this returns.
  if (failure_.has_failed())
    progress_.DriveUntil(Later(until, suspicion_.graces().close_drain), 0, [&] { return failure_.has_ended(); });
  if (is_late() && failure_.has_failed()) status = Fail(*failure());
  ShutDown(status);
  return status;
}

Status CommunicatorCore::PartBy(TimePoint began, TimePoint until) {
  closing_.store(true, std::memory_order_release);
  messages_.Close(Error(ErrorCode::kClosed, fmt::format("rank {} has closed this communicator", rank())),
                  leaving_.load() ? PostedReceives::kGivenUp : PostedReceives::kStay);
  graphs_.Check();
  Status status = WaitFor(queue_.issued(), until);
  if (status && !progress_.DriveUntil(until, 0, [&] { return messages_.pending() == 0; })) {
    status = Fail(ErrorCode::kNotReady, "{} sends and receives are still under way", messages_.pending());
  }
  if (status) {
    bool over = false;
    const bool parted = progress_.DriveUntil(
        until, 0, [&] { return over || failure_.has_ended(); },
        [&] {
          return over = !failure_.has_failed() && failure_.Guard("closing", [&] { return ExchangeGoodbyes(); }) &&
                        !failure_.has_failed();
        });
    // Operations that only sent have returned without looking at anybody: here they are compared.
    if (const auto odd = FindMismatchedGoodbye(); parted && odd && !failure_.has_failed()) {
      failure_.Begin(*odd);
      progress_.DriveUntil(until, 0, [&] { return failure_.has_ended(); });
    }
    if (failure_.has_failed()) {
      status = Fail(*failure());
    } else if (!parted && leaving_.load()) {
      // Rank 0 of an intranode group has held its goodbye back until now.
      progress_.Enter();
      failure_.Guard("leaving", [&] { return SendGoodbyes(); });
      progress_.Leave();
    } else if (!parted) {
      status = Fail(ErrorCode::kTimeout, "rank {} waited {:.3f} s for others to close too; missing: rank {}", rank(),
                    std::chrono::duration<double>(until - began).count(), fmt::join(PeersWithoutGoodbye(), ", "));
    }
  }
  return status;
}

// Who left without a word now would be taken for dead by those who know less, in the place of the one that all wait
// for.
bool CommunicatorCore::FailWhatIsLeft(Duration time) {
  progress_.Enter();
  const Sequence first = queue_.completed() + 1;
  const bool is_collective = first <= queue_.issued();
  const bool is_left = is_collective || messages_.pending() > 0;
  if (is_left && !failure_.has_failed()) {
    const TimePoint now = progress_.Look();
    Error error = Error::MemoryRanOut();
    IfMemoryAllows([&] {
      if (!is_collective) {
        error = messages_.LateFor("Close's ", time);
        return;
      }
      LateOperation late = LateAt(queue_.At(first));
      late.timeout = time;
      late.timeout_owner = "Close's ";
      error = suspicion_.TimeoutOf(late, BlockedPeers(), now);
    });
    failure_.Begin(std::move(error));
  }
  progress_.Leave();
  return is_left || failure_.has_failed();
}

bool CommunicatorCore::OthersSpeakFirst() {
  progress_.Enter();
  const bool others = !failure_.has_failed() && failure_.Guard("closing", [&] {
    return (IsSettlingBoard() && rank() != 0) || suspicion_.OthersReportFirst(BlockedPeers(), progress_.Look());
  });
  progress_.Leave();
  return others;
}

void CommunicatorCore::ShutDown(const Status& status) {
  progress_.Enter();
  IfMemoryAllows([&] {
    if (const std::size_t left = messages_.held(); left > 0)
      Log(options_.logger, LogLevel::kWarning, "{} closed with {} messages that it never received",
          names_.NameOf(rank()), left);
  });
  std::optional<ControlMessage> goodbye;
  if (!failure_.has_failed())
    IfMemoryAllows([&] {
      goodbye = OwnGoodbye();
      endpoint_->LeaveBehind(*goodbye);
    });
  IfMemoryAllows([&] { endpoint_->ShutDown(); });  // else it ends with its destructor, all at once
  progress_.Leave();
  if (goodbye) IfMemoryAllows([&] { KeepGoodbye(*goodbye, status); });
  const std::lock_guard lock(mutex_);
  close_status_ = status;
}

void CommunicatorCore::KeepGoodbye(const ControlMessage& goodbye, const Status& status) {
  if (options_.kept_goodbyes == nullptr || !peers_.HasUnreached()) return;
  // In a Close that has succeeded rank 0 of an intranode group has seen the goodbyes of all ranks: none needs another.
  if (runner_->has_board() && status && !leaving_.load()) return;
  if (const Status kept = options_.kept_goodbyes->Keep(options_.id, rank(), goodbye.body); !kept)
    Log(options_.logger, LogLevel::kInfo, "{} could not keep its goodbye for ranks that were never connected to it: {}",
        names_.NameOf(rank()), kept.error().ToString());
}

bool CommunicatorCore::IsInItsProcess() const { return getpid() == process_; }

void CommunicatorCore::Destroy() {
  const bool failed_before = failure_.has_failed();
  bool parted;
  {
    const std::lock_guard lock(mutex_);
    parted = close_status_ && close_status_->has_value();
  }
  if (!parted) {
    Error error = Error::MemoryRanOut();
    IfMemoryAllows([&] {
      error = WithCulprit(ErrorCode::kAborted,
                          fmt::format("rank {} destroyed its communicator without closing it", rank()), rank());
    });
    failure_.Begin(std::move(error));
  }
  progress_.StopThread();
  // Whatever was pending ends before the endpoint goes.
  progress_.Enter();
  while (failure_.state() == Failure::State::kFailed) std::this_thread::yield();  // another thread notifies the peers
  if (failure_.has_failed() && !failure_.has_ended()) EndAfterFailure();
  stream_watch_.reset();
  if (teller_.joinable()) teller_.join();
  if (failure_.has_failed()) {
    // A rank that failed before it has done anything may be ahead of others.
    const bool peers_may_connect =
        failed_before && queue_.completed() == 0 && !messages_.in_use() && endpoint_->wait_fd() >= 0;
    failure_.FlushNotices(peers_may_connect, suspicion_.graces(), progress_.lock());
    // Its destruction is no first cause: another rank, or the parent of this group, may know the real one.
    if (failed_before) IfMemoryAllows([&] { failure_.LeaveNotice(); });
  }
  progress_.ForgetArmed();
  endpoint_.Take().reset();
  progress_.Leave();
  RunCallbacks();
}

}  // namespace rondo
