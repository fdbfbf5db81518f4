// How a core advances its pending operations. Which thread does so, and how threads wait, is decided by progress_.
#include <algorithm>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// If only the shared segment is in use: its polls between two of the endpoint's, which adopts late connections there.
constexpr std::uint32_t kSegmentPollsPerEndpointPoll = 64;
// What runs at once: a rank has at most this many bytes, and is polled this often, before deadlines and lanes are
// looked at.
constexpr std::uint64_t kBytesAtOnce = 32 * 1024;
constexpr int kPollsAtOnce = 256;
constexpr int kYieldsAtOnce = 2;
constexpr int kPollsBetweenYieldsAtOnce = 8;
// A device wakes no thread when it has come so far, or has copied.
constexpr Duration kLookAtDeviceEvery = std::chrono::microseconds(100);

}  // namespace

ProgressSource::Advanced CommunicatorCore::Advance() {
  Advanced advanced{.issued = queue_.issued()};
  advanced.moved = failure_.Guard("driving an operation", [&] { return AdvanceOperations(); });
  if (!advanced.moved) advanced.awaited = current_.runner().WhereAreAwaited();
  return advanced;
}

bool CommunicatorCore::AdvanceOperations() {
  streams_.OnLook();
  if (!endpoint_.exists()) return false;  // destroyed, but a Work or a parent's Abort still holds this core
  if (failure_.has_failed()) {
    if (failure_.has_ended()) {
      endpoint_->Poll(progress_.Look());  // late comers are still heard, and told
      return false;
    }
    // The thread that found the failure notifies the peers, which must be done when a call returns: its process may end
    // then.
    if (failure_.state() == Failure::State::kFailed) return false;
    EndAfterFailure();
    return true;
  }
  current_.runner().RunsOn(waiter_->Core());
  const bool messages = messages_.in_use();
  if (messages && messages_.is_waiting() && !current_.running() && !queue_.HasCurrent() && messages_.MayGoFirst()) {
    messages_.Advance(/*glance_is_due=*/false);
    return true;
  }
  // The segment's turns need nothing of the endpoint, and its clock would take longer than they do.
  const bool look =
      !current_.runner().is_on_segment_alone() || messages || ++segment_polls_ % kSegmentPollsPerEndpointPoll == 0;
  if (look) endpoint_->Poll(progress_.Look());
  bool moved = false;
  if (messages) [[unlikely]] {
    moved = messages_.Advance(/*glance_is_due=*/false);
    if (failure_.has_failed()) return true;
  }
  while (true) {
    if (!current_.running()) {
      if (!queue_.HasCurrent()) return moved;
      const Result<bool> started = StartNext();
      if (!started) {
        failure_.Begin(started.error());
        return true;
      }
      if (!*started) return moved;
      records_.OnStart(look);
      moved = true;
    }
    const Result<Progress> progress = current_.Poll();
    if (!progress) {
      failure_.Begin(current_.InOperation(progress.error()));
      return true;
    }
    if (*progress == Progress::kNothing) return moved;
    suspicion_.OnMoved();
    if (*progress == Progress::kMoved) return true;
    suspicion_.OnCompleted();
    current_.Complete(queue_.Current().request);
    if (const Status equal = CompareResults(queue_.Current().request); !equal) {
      failure_.Begin(equal.error());
      return true;
    }
    records_.OnEnd(look);
    queue_.Complete();
    callbacks_.OnEnded();
    progress_.lock().Announce(/*work=*/false);
    moved = true;
  }
}

// Whether nothing else is under way and all is settled. Now and then it says no, so that the endpoint is polled.
bool CommunicatorCore::MayRunAtOnce(const OperationRequest& request) {
  if (request.descriptor.count * SizeOf(request.descriptor.type) > kBytesAtOnce) return false;
  if (!endpoint_.exists() || progress_.is_armed() || !current_.runner().has_segment()) return false;
  if (messages_.in_use()) return false;
  if (queue_.HasCurrent()) return false;
  if ((segment_polls_ + 1) % kSegmentPollsPerEndpointPoll == 0) return false;
  ++segment_polls_;
  return true;
}

Result<bool> CommunicatorCore::StartNext() {
  RONDO_ASSIGN(const bool started, current_.Start(queue_.Current().request));
  if (started) detector_.OnStarted();
  return started;
}

bool CommunicatorCore::RunAtOnce() {
  bool ended = false;
  failure_.Guard("running an operation", [&] { return ended = StartAndPoll(); });
  return ended;
}

bool CommunicatorCore::StartAndPoll() {
  suspicion_.OnMoved();
  suspicion_.OnCompleted();
  const bool spins = progress_.spins();
  current_.runner().RunsOn(waiter_->Core());
  int yields = 0;
  for (int polls = 1; polls <= kPollsAtOnce; ++polls) {
    if (failure_.has_failed()) return false;
    if (!current_.runner().running()) {
      if (const Result<bool> started = StartNext(); !started) {
        failure_.Begin(started.error());
        return false;
      }
    }
    const Result<Progress> progress = current_.runner().Poll();
    if (!progress) {
      failure_.Begin(current_.InOperation(progress.error()));
      return false;
    }
    if (*progress == Progress::kMoved) continue;
    if (*progress == Progress::kNothing) {
      if (spins && polls % kPollsBetweenYieldsAtOnce != 0) continue;
      const AwaitedRanks awaited = current_.runner().WhereAreAwaited();
      if (awaited == AwaitedRanks::kUnknown && !spins) return false;
      if (awaited != AwaitedRanks::kOnThisCore) continue;
      if (++yields > kYieldsAtOnce) return false;
      waiter_->Yield();
      current_.runner().RunsOn(waiter_->Core());
      continue;
    }
    current_.Complete(queue_.Current().request);
    // A thread that parks looks at the progress lock first, which is left next.
    queue_.CompleteUnawaited();
    return true;
  }
  return false;
}

// ---- what progress_ asks ----

bool CommunicatorCore::Glance() {
  return current_.runner().GlanceAtSegment() || (messages_.pending() > 0 && !current_.running() && messages_.Glance());
}

bool CommunicatorCore::CheckWhileBlocked(TimePoint now, Sequence waited) {
  records_.OnWaiting();
  return detector_.Check(now, waited);
}

void CommunicatorCore::CheckWhileMoving(TimePoint now, Sequence waited) {
  if (!failure_.has_failed()) detector_.CheckDeadlines(now, waited);
}

void CommunicatorCore::OnPause(Duration pause) {
  messages_.ExtendDeadlines(pause);
  queue_.ExtendDeadlines(pause);
}

ProgressSource::BeforeSleep CommunicatorCore::PrepareToSleep() {
  if (current_.runner().MoverBusy()) return BeforeSleep::kYield;  // nothing would wake a sleeper when the mover is done
  const bool moved = messages_.in_use() &&
                     failure_.Guard("driving messages", [&] { return messages_.Advance(/*glance_is_due=*/true); });
  return moved ? BeforeSleep::kAgain : BeforeSleep::kSleep;
}

bool CommunicatorCore::Arm() {
  return failure_.Guard("falling asleep", [&] { return endpoint_->Arm() || current_.runner().HasNews(); });
}

void CommunicatorCore::Disarm() {
  failure_.Guard("waking up", [&] {
    endpoint_->Disarm();
    return true;
  });
}

TimePoint CommunicatorCore::WakeTime(TimePoint now) {
  TimePoint wake = now + (current_.is_on_device() ? kLookAtDeviceEvery : suspicion_.graces().heartbeat_interval);
  if (messages_.in_use()) wake = std::min(wake, messages_.next_deadline());
  if (queue_.HasCurrent()) wake = std::min(wake, detector_.ReportTime(queue_.current()));
  return wake;
}

void CommunicatorCore::Sleep(int kick_fd, TimePoint until) { waiter_->Sleep(*endpoint_, kick_fd, until); }

bool CommunicatorCore::HasWorkSince(Sequence issued) const {
  return messages_.is_waiting() || queue_.issued() != issued;
}

bool CommunicatorCore::HasEnded(Sequence last) const {
  return (queue_.completed() >= last && messages_.pending() == 0) || failure_.has_ended();
}

bool CommunicatorCore::HasWork() const {
  return !failure_.has_ended() && (queue_.HasPending() || messages_.pending() > 0 || failure_.has_failed());
}

void CommunicatorCore::RunCallbacks() {
  callbacks_.Run(
      [&](const Callbacks::Callback& callback) {
        if (callback.message != nullptr) return callback.message->final.load();
        return queue_.completed() >= callback.sequence || failure_.has_ended();
      },
      [&](const Callbacks::Callback& callback) {
        return callback.message != nullptr ? *messages_.FinalStatus(*callback.message)
                                           : *FinalStatus(callback.sequence);
      });
}

// ---- waiting ----

Status CommunicatorCore::WaitFor(Sequence sequence, TimePoint until) {
  const bool final =
      progress_.DriveUntil(until, sequence, [&] { return queue_.completed() >= sequence || failure_.has_ended(); });
  if (queue_.completed() >= sequence) return {};
  if (!final) return Fail(ErrorCode::kNotReady, "operation #{} is still under way", sequence);
  return Fail(*failure());
}

Status CommunicatorCore::WaitForGood(Sequence sequence) { return WaitFor(sequence, TimePoint::max()); }

std::optional<Status> CommunicatorCore::FinalStatus(Sequence sequence) const {
  if (queue_.completed() >= sequence) return Status{};
  if (failure_.has_ended()) return Status(Fail(*failure()));
  return std::nullopt;
}

bool CommunicatorCore::ProgressOnce() {
  if (!progress_.lock().TryEnter()) return false;
  progress_.Disarm();
  const bool advanced = Advance().moved;
  const TimePoint now = progress_.Look();
  const bool moved = endpoint_.exists() && !failure_.has_ended() &&
                     (advanced ? (detector_.CheckDeadlines(now, 0), true) : detector_.Check(now, 0));
  progress_.Leave();
  if (!callbacks_.empty()) RunCallbacks();
  return moved;
}

void CommunicatorCore::Then(Sequence sequence, std::shared_ptr<MessageOperation> message,
                            std::function<void(const Status&)> done) {
  Callbacks::Callback callback{sequence, std::move(message), std::move(done)};
  const bool kept = IfMemoryAllows([&] { callbacks_.Add(std::move(callback)); });
  RunCallbacks();
  if (kept) return;
  failure_.Begin(OutOfMemoryWhile("keeping what is to be called"));
  callback.done(Fail(*failure()));
}

}  // namespace rondo
