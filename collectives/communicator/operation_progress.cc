#include "collectives/communicator/operation_progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "collectives/communicator/peer_errors.h"

namespace rondo {
namespace {

// If only the shared segment is in use, the endpoint is polled at one of this many polls of the segment. It must be
// polled, because it also adopts late connections.
constexpr std::uint32_t kSegmentPollsPerEndpointPoll = 64;
// Limits of an operation that runs in the call that issues it: the bytes of a rank, and the number of polls before
// deadlines and lanes are checked.
constexpr std::uint64_t kBytesAtOnce = 32 * 1024;
constexpr int kPollsAtOnce = 256;
constexpr int kYieldsAtOnce = 2;
constexpr int kPollsBetweenYieldsAtOnce = 8;
// A device wakes no thread when its stream reaches the operation, or when a copy ends. So a thread checks at this
// interval.
constexpr Duration kLookAtDeviceEvery = std::chrono::microseconds(100);

}  // namespace

ProgressSource::Advanced OperationProgress::Advance() {
  Advanced advanced{.issued = near_.queue.issued()};
  advanced.moved = near_.failure.Guard("advancing an operation", [&] { return AdvanceOperations(); });
  if (!advanced.moved) advanced.awaited = near_.current.runner().WhereAreAwaited();
  return advanced;
}

bool OperationProgress::AdvanceOperations() {
  near_.streams.OnLook();
  // The communicator is destroyed, but a Work or a parent's Abort still refers to its CommunicatorCore.
  if (!near_.endpoint.exists()) return false;
  if (near_.failure.has_failed()) {
    if (near_.failure.has_ended()) {
      near_.endpoint->Poll(near_.progress.Look());  // ranks that connect late still get their notices
      return false;
    }
    // The thread that found the failure is still notifying the peers. It must finish that before its call returns,
    // because the process may end then.
    if (near_.failure.state() == Failure::State::kFailed) return false;
    EndAfterFailure();
    return true;
  }
  near_.current.runner().RunsOn(near_.waiter.Core());
  const bool messages = near_.messages.in_use();
  if (messages && near_.messages.is_waiting() && !near_.current.running() && !near_.queue.HasCurrent() &&
      near_.messages.MayGoFirst()) {
    near_.messages.Advance(/*glance_is_due=*/false);
    return true;
  }
  // An operation on the shared segment does not need the endpoint. Polling the endpoint includes reading the clock,
  // which takes longer than a round on the segment.
  const bool look =
      !near_.current.runner().is_on_segment_alone() || messages || ++segment_polls_ % kSegmentPollsPerEndpointPoll == 0;
  if (look) near_.endpoint->Poll(near_.progress.Look());
  bool moved = false;
  if (messages) [[unlikely]] {
    moved = near_.messages.Advance(/*glance_is_due=*/false);
    if (near_.failure.has_failed()) return true;
  }
  while (true) {
    if (!near_.current.running()) {
      if (!near_.queue.HasCurrent()) return moved;
      const Result<bool> started = StartNext();
      if (!started) {
        near_.failure.Begin(started.error());
        return true;
      }
      if (!*started) return moved;
      near_.records.OnStart(look);
      moved = true;
    }
    const Result<Progress> progress = near_.current.Poll();
    if (!progress) {
      near_.failure.Begin(near_.current.InOperation(progress.error()));
      return true;
    }
    if (*progress == Progress::kNothing) return moved;
    near_.suspicion.OnMoved();
    if (*progress == Progress::kMoved) return true;
    near_.suspicion.OnCompleted();
    near_.current.Complete(near_.queue.Current().request);
    if (const Status equal = CompareResults(near_.queue.Current().request); !equal) {
      near_.failure.Begin(equal.error());
      return true;
    }
    near_.records.OnEnd(look);
    near_.queue.Complete();
    near_.callbacks.OnEnded();
    near_.progress.lock().Announce(/*work=*/false);
    moved = true;
  }
}

bool OperationProgress::MayRunAtOnce(const OperationRequest& request) {
  if (request.descriptor.count * SizeOf(request.descriptor.type) > kBytesAtOnce) return false;
  if (!near_.endpoint.exists() || near_.progress.is_armed() || !near_.current.runner().has_segment()) return false;
  if (near_.messages.in_use()) return false;
  if (near_.queue.HasCurrent()) return false;
  if ((segment_polls_ + 1) % kSegmentPollsPerEndpointPoll == 0) return false;
  ++segment_polls_;
  return true;
}

Result<bool> OperationProgress::StartNext() {
  RONDO_ASSIGN(const bool started, near_.current.Start(near_.queue.Current().request));
  if (started) near_.detector.OnStarted();
  return started;
}

bool OperationProgress::RunAtOnce() {
  bool ended = false;
  near_.failure.Guard("running an operation", [&] { return ended = StartAndPoll(); });
  return ended;
}

bool OperationProgress::StartAndPoll() {
  near_.suspicion.OnMoved();
  near_.suspicion.OnCompleted();
  const bool spins = near_.progress.spins();
  near_.current.runner().RunsOn(near_.waiter.Core());
  int yields = 0;
  for (int polls = 1; polls <= kPollsAtOnce; ++polls) {
    if (near_.failure.has_failed()) return false;
    if (!near_.current.runner().running()) {
      if (const Result<bool> started = StartNext(); !started) {
        near_.failure.Begin(started.error());
        return false;
      }
    }
    const Result<Progress> progress = near_.current.runner().Poll();
    if (!progress) {
      near_.failure.Begin(near_.current.InOperation(progress.error()));
      return false;
    }
    if (*progress == Progress::kMoved) continue;
    if (*progress == Progress::kNothing) {
      if (spins && polls % kPollsBetweenYieldsAtOnce != 0) continue;
      const AwaitedRanks awaited = near_.current.runner().WhereAreAwaited();
      if (awaited == AwaitedRanks::kUnknown && !spins) return false;
      if (awaited != AwaitedRanks::kOnThisCore) continue;
      if (++yields > kYieldsAtOnce) return false;
      near_.waiter.Yield();
      near_.current.runner().RunsOn(near_.waiter.Core());
      continue;
    }
    near_.current.Complete(near_.queue.Current().request);
    // A thread that is about to park first reads the progress lock, which this thread still holds. So it parks only
    // until the lock is released.
    near_.queue.CompleteUnawaited();
    return true;
  }
  return false;
}

// ---- for ProgressLoop ----

bool OperationProgress::Glance() {
  return near_.current.runner().GlanceAtSegment() ||
         (near_.messages.pending() > 0 && !near_.current.running() && near_.messages.Glance());
}

bool OperationProgress::CheckWhileBlocked(TimePoint now, Sequence waited) {
  near_.records.OnWaiting();
  return near_.detector.Check(now, waited);
}

void OperationProgress::CheckWhileMoving(TimePoint now, Sequence waited) {
  if (!near_.failure.has_failed()) near_.detector.CheckDeadlines(now, waited);
}

void OperationProgress::OnPause(TimePoint begin, TimePoint end) {
  near_.queue.ExtendDeadlines(begin, end);
  // Starts messages, and so may run out of memory.
  near_.failure.Guard("extending deadlines", [&] {
    near_.messages.ExtendDeadlines(begin, end);
    return true;
  });
}

ProgressSource::BeforeSleep OperationProgress::PrepareToSleep() {
  if (near_.current.runner().MoverBusy())
    return BeforeSleep::kYield;  // nothing would wake a sleeping thread when the mover is done
  const bool moved = near_.messages.in_use() && near_.failure.Guard("advancing messages", [&] {
    return near_.messages.Advance(/*glance_is_due=*/true);
  });
  return moved ? BeforeSleep::kAgain : BeforeSleep::kSleep;
}

bool OperationProgress::Arm() {
  return near_.failure.Guard("preparing to sleep",
                             [&] { return near_.endpoint->Arm() || near_.current.runner().HasNews(); });
}

void OperationProgress::Disarm() {
  near_.failure.Guard("waking up", [&] {
    near_.endpoint->Disarm();
    return true;
  });
}

TimePoint OperationProgress::WakeTime(TimePoint now) {
  TimePoint wake =
      now + (near_.current.is_on_device() ? kLookAtDeviceEvery : near_.suspicion.graces().heartbeat_interval);
  if (near_.messages.in_use()) wake = std::min(wake, near_.messages.next_deadline());
  if (near_.queue.HasCurrent()) wake = std::min(wake, near_.detector.ReportTime(near_.queue.current()));
  return wake;
}

void OperationProgress::Sleep(int kick_fd, TimePoint until) { near_.waiter.Sleep(*near_.endpoint, kick_fd, until); }

bool OperationProgress::HasWorkSince(Sequence issued) const {
  return near_.messages.is_waiting() || near_.queue.issued() != issued;
}

bool OperationProgress::HasEnded(Sequence last) const {
  return (near_.queue.completed() >= last && near_.messages.pending() == 0) || near_.failure.has_ended();
}

bool OperationProgress::HasWork() const {
  return !near_.failure.has_ended() &&
         (near_.queue.HasPending() || near_.messages.pending() > 0 || near_.failure.has_failed());
}

void OperationProgress::RunCallbacks() {
  near_.callbacks.Run(
      [&](const Callbacks::Callback& callback) {
        if (callback.message != nullptr) return callback.message->final.load();
        return near_.queue.completed() >= callback.sequence || near_.failure.has_ended();
      },
      [&](const Callbacks::Callback& callback) {
        return callback.message != nullptr ? *near_.messages.FinalStatus(*callback.message)
                                           : *FinalStatus(callback.sequence);
      });
}

// ---- after a failure ----

void OperationProgress::EndAfterFailure() noexcept {
  near_.failure.BeginEnd();
  // The order matters: other processes must lose access to the buffers before waiting threads return, because the user
  // may then use the buffers again.
  near_.endpoint->Revoke();
  std::vector<BlockedStep> blocked;
  IfMemoryAllows([&] { blocked = near_.current.runner().Blocked(); });
  const bool running = near_.current.running();
  // a copy, because draining the segment clears the original
  const OperationDescriptor operation = near_.current.operation();
  near_.current.Drain();
  IfMemoryAllows([&] {
    near_.failure.RefineCause([&](const Error& known) {
      return WithOperation(known, near_.names.self(), running ? &operation : nullptr, blocked);
    });
  });
  const Error cause = *near_.failure.cause();
  near_.records.OnFailure(cause, running);
  near_.messages.FailAll(cause);
  near_.device.EndGraphs();  // for a device queue that did not exist yet when OnFailing was called
  near_.device.ReleaseAllStreams();
  near_.failure.End();
  near_.progress.lock().Announce();
  near_.listener.OnEnded();  // at this point all waiting threads have been notified
}

// ---- waiting ----

Status OperationProgress::WaitFor(Sequence sequence, TimePoint until) {
  const bool final = near_.progress.AdvanceUntil(
      until, sequence, [&] { return near_.queue.completed() >= sequence || near_.failure.has_ended(); });
  if (near_.queue.completed() >= sequence) return {};
  if (!final) return Fail(ErrorCode::kNotReady, "operation #{} is still under way", sequence);
  return Fail(*near_.failure.cause());
}

std::optional<Status> OperationProgress::FinalStatus(Sequence sequence) const {
  if (near_.queue.completed() >= sequence) return Status{};
  if (near_.failure.has_ended()) return Status(Fail(*near_.failure.cause()));
  return std::nullopt;
}

bool OperationProgress::ProgressOnce() {
  if (!near_.progress.lock().TryEnter()) return false;
  near_.progress.Disarm();
  const bool advanced = Advance().moved;
  const TimePoint now = near_.progress.Look();
  near_.progress.OnSeenRunning(now);
  const bool moved = near_.endpoint.exists() && !near_.failure.has_ended() &&
                     (advanced ? (near_.detector.CheckDeadlines(now, 0), true) : near_.detector.Check(now, 0));
  near_.progress.Leave();
  if (!near_.callbacks.empty()) RunCallbacks();
  return moved;
}

void OperationProgress::Then(Sequence sequence, std::shared_ptr<MessageOperation> message,
                             std::function<void(const Status&)> done) {
  Callbacks::Callback callback{sequence, std::move(message), std::move(done)};
  const bool kept = IfMemoryAllows([&] { near_.callbacks.Add(std::move(callback)); });
  RunCallbacks();
  if (kept) return;
  near_.failure.Begin(OutOfMemoryWhile("storing a callback"));
  callback.done(Fail(*near_.failure.cause()));
}

}  // namespace rondo
