// Who waits, drives: how a core moves its operations on, in the thread that waits or in the progress thread.
#include <algorithm>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// While spinning. A yield costs about half a microsecond where nobody else wants the core; without any, two ranks that
// the scheduler put on one core spin their whole budget at each other.
constexpr std::uint32_t kPollsBetweenYields = 8;
// Where those who are waited for run on other cores, nobody but strangers is helped by that.
constexpr std::uint32_t kPollsBetweenYieldsToStrangers = 64;
// So long such ranks are waited for before the core is given away, whatever the policy: who shares it waits for them,
// too.
constexpr Duration kSpinForElsewhere = std::chrono::microseconds(20);
// Where only the board is in use: its polls between two of the endpoint's, which adopts late connections there.
constexpr std::uint32_t kBoardPollsPerEndpointPoll = 64;
// Messages that are started before the endpoint is polled, in a row.
constexpr std::uint32_t kStartsPerEndpointPoll = 8;
// What runs at once: so much of a rank, and so often looked at, before deadlines and lanes are.
constexpr std::uint64_t kBytesAtOnce = 32 * 1024;
constexpr int kPollsAtOnce = 256;
constexpr int kYieldsAtOnce = 2;
// Whoever waits drives better than the progress thread, which costs two system calls and a core each time they take
// turns. So it stands back for so long, the longer the more often it finds that somebody has waited meanwhile.
constexpr Duration kStandBackAtFirst = std::chrono::microseconds(100);
constexpr Duration kStandBackAtMost = std::chrono::milliseconds(1);
// Nobody is woken when a device has come so far, or has copied.
constexpr Duration kLookAtDeviceEvery = std::chrono::microseconds(100);
// While bytes move.
constexpr std::uint32_t kPollsBetweenClockReads = 64;

}  // namespace

bool CommunicatorCore::Advance() {
  return OrPoison("driving an operation", [&] { return AdvanceOperations(); });
}

bool CommunicatorCore::AdvanceOperations() {
  looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (endpoint_ == nullptr) return false;  // destroyed, but a Work or a parent's Abort still holds this core
  if (failure_.has_failed()) {
    if (failure_.has_ended()) {
      endpoint_->Poll(Look());  // late comers are still heard, and told
      return false;
    }
    // The thread that found the failure notifies the peers, which must be done when a call returns: its process may end
    // then.
    if (failure_.state() == CommunicatorFailure::State::kFailed) return false;
    EndAfterFailure();
    return true;
  }
  runner_->RunsOn(waiter_->Core());
  const bool messages = messages_in_use_.load(std::memory_order_relaxed);
  if (messages && MayStartMessagesFirst()) {
    AdvanceMessages(/*glance_is_due=*/false);
    return true;
  }
  // The board's turns need nothing of the endpoint, and its clock would take longer than they do.
  const bool look = !runner_->is_on_board_alone() || messages || ++board_polls_ % kBoardPollsPerEndpointPoll == 0;
  if (look) endpoint_->Poll(Look());
  bool moved = false;
  if (messages) [[unlikely]] {
    moved = AdvanceMessages(/*glance_is_due=*/false);
    if (failure_.has_failed()) return true;
  }
  while (true) {
    if (!IsRunning()) {
      if (!queue_.HasCurrent()) return moved;
      const Result<bool> started = StartNext();
      if (!started) {
        Poison(started.error());
        return true;
      }
      if (!*started) return moved;
      RecordStart(look);
      moved = true;
    }
    const Result<Progress> progress = PollCurrent();
    if (!progress) {
      Poison(InOperation(progress.error()));
      return true;
    }
    if (*progress == Progress::kNothing) return moved;
    suspicion_.OnMoved();
    if (*progress == Progress::kMoved) return true;
    suspicion_.OnCompleted();
    CompleteCurrent();
    if (const Status equal = CompareResults(); !equal) {
      Poison(equal.error());
      return true;
    }
    RecordEnd(look);
    queue_.Complete();
    if (callback_count_.load() > 0) callbacks_due_.store(true);
    gate_.Announce(/*work=*/false);
    moved = true;
  }
}

// A message that was just issued goes out before anything else is looked at: its peer waits. Not always, for who sends
// again and again must look as well.
bool CommunicatorCore::MayStartMessagesFirst() {
  if (!submissions_waiting_.load(std::memory_order_relaxed) || IsRunning() || queue_.HasCurrent()) return false;
  return ++starts_ % kStartsPerEndpointPoll != 0;
}

// Whether nothing else is under way and all is settled. Now and then it says no, so that the endpoint is polled.
bool CommunicatorCore::MayRunAtOnce(const OperationRequest& request) {
  if (request.descriptor.count * SizeOf(request.descriptor.type) > kBytesAtOnce) return false;
  if (endpoint_ == nullptr || armed_ || !runner_->has_board()) return false;
  if (messages_in_use_.load(std::memory_order_relaxed)) return false;
  if (queue_.HasCurrent()) return false;
  if ((board_polls_ + 1) % kBoardPollsPerEndpointPoll == 0) return false;
  ++board_polls_;
  return true;
}

bool CommunicatorCore::RunAtOnce() {
  bool ended = false;
  OrPoison("running an operation", [&] { return ended = StartAndPoll(); });
  return ended;
}

bool CommunicatorCore::StartAndPoll() {
  suspicion_.OnMoved();
  suspicion_.OnCompleted();
  const bool spins = wait_policy_.spin > Duration::zero() && !contention_.is_wanted();
  runner_->RunsOn(waiter_->Core());
  int yields = 0;
  for (int polls = 1; polls <= kPollsAtOnce; ++polls) {
    if (failure_.has_failed()) return false;
    if (!runner_->running()) {
      if (const Result<bool> started = StartNext(); !started) {
        Poison(started.error());
        return false;
      }
    }
    const Result<Progress> progress = runner_->Poll();
    if (!progress) {
      Poison(InOperation(progress.error()));
      return false;
    }
    if (*progress == Progress::kMoved) continue;
    if (*progress == Progress::kNothing) {
      if (spins && polls % kPollsBetweenYields != 0) continue;
      const BoardPath::Awaited awaited = runner_->WhereAreAwaited();
      if (awaited == BoardPath::Awaited::kUnknown && !spins) return false;
      if (awaited != BoardPath::Awaited::kHere) continue;
      if (++yields > kYieldsAtOnce) return false;
      waiter_->Yield();
      runner_->RunsOn(waiter_->Core());
      continue;
    }
    CompleteCurrent();
    // Who parks looks at the gate first, which is left next.
    queue_.CompleteUnawaited();
    return true;
  }
  return false;
}

void CommunicatorCore::Disarm() {
  if (!std::exchange(armed_, false)) return;
  OrPoison("waking up", [&] {
    endpoint_->Disarm();
    return true;
  });
}

void CommunicatorCore::Yield() {
  const TimePoint before = clock_->Now();
  waiter_->Yield();
  contention_.Yielded(Look() - before);
}

// Ranks on the board have said where they run. Who is to sleep at once does so all the same.
WaitPolicy CommunicatorCore::PolicyFor(BoardPath::Awaited awaited) const {
  WaitPolicy policy = contention_.is_wanted() ? shared_core_policy_ : wait_policy_;
  const Duration awake = policy.spin + policy.yield;
  if (awake == Duration::zero()) return policy;
  if (awaited == BoardPath::Awaited::kHere) policy = {.spin = {}, .yield = awake};
  if (awaited == BoardPath::Awaited::kElsewhere) policy.spin = std::max(policy.spin, kSpinForElsewhere);
  return policy;
}

void CommunicatorCore::Drive(TimePoint until, Sequence waited, bool background, Condition ready, Condition step) {
  // REQUIRES ownership; gives it up in every way out.
  Disarm();
  std::optional<TimePoint> idle_since;
  std::uint32_t idle_polls = 0, moved_polls = 0;
  bool glanced = false;
  std::optional<TimePoint> seen_at;
  const auto note_pause = [&](TimePoint now) {
    if (seen_at && now - *seen_at > suspicion_.graces().process_pause && waiter_->SeesPauses())
      PutOffDeadlines(now - *seen_at);
    seen_at = now;
  };
  while (true) {
    looked_ = false;
    const Sequence issued = queue_.issued();
    const bool moved = Advance();
    step();
    if (ready() || CallbacksDue() || (background && waiters_.load() > 0)) break;
    if (moved) {
      idle_since.reset();
      idle_polls = 0;
      // A long operation on a slow machine may always have something to move.
      if (++moved_polls % kPollsBetweenClockReads == 0) {
        const TimePoint now = Look();
        note_pause(now);
        if (now >= until) break;
        if (!failure_.has_failed()) CheckDeadlines(now, waited);
      }
      continue;
    }
    const BoardPath::Awaited awaited = runner_->WhereAreAwaited();
    const WaitPolicy policy = PolicyFor(awaited);
    // At most every other time, so that the clock is looked at whatever the board shows.
    glanced = !glanced && policy.spin > Duration::zero() && (runner_->GlanceAtBoard() || GlanceAtMessages());
    if (glanced) continue;
    const TimePoint now = looked_ ? last_look_ : Look();
    note_pause(now);
    if (start_is_coarse_) RecordWaiting();
    if (!idle_since) idle_since = now;
    if (CheckForFailure(now, waited)) continue;
    if (now >= until) break;
    const Duration idle = now - *idle_since;
    if (idle < policy.spin) {
      // The peer may have been put on this very core: then only giving it away lets the bytes come.
      const bool elsewhere = awaited == BoardPath::Awaited::kElsewhere;
      if (++idle_polls % (elsewhere ? kPollsBetweenYieldsToStrangers : kPollsBetweenYields) == 0) Yield();
      continue;
    }
    if (idle < policy.spin + policy.yield) {
      // That a neighbour is let run says nothing of strangers.
      awaited == BoardPath::Awaited::kHere ? waiter_->Yield() : Yield();
      continue;
    }

    if (runner_->MoverBusy()) {  // nothing would wake a sleeper when the mover is done
      Yield();
      continue;
    }
    const bool messages = messages_in_use_.load(std::memory_order_relaxed);
    if (messages && OrPoison("driving messages", [&] { return AdvanceMessages(/*glance_is_due=*/true); })) continue;
    armed_ = true;
    if (OrPoison("falling asleep", [&] { return endpoint_->Arm() || runner_->HasNews(); })) {
      Disarm();
      continue;
    }
    // Should nothing wake the thread.
    TimePoint wake =
        std::min(until, now + (staging_.running() ? kLookAtDeviceEvery : suspicion_.graces().heartbeat_interval));
    if (messages) wake = std::min(wake, messages_->next_deadline());
    if (queue_.HasCurrent()) wake = std::min(wake, DeadlineOf(queue_.current()));
    if (!gate_.LeaveToSleep()) {
      gate_.Park(wake, [&] { return ready() || CallbacksDue() || (background && waiters_.load() > 0); });
    } else {
      // Whoever submitted a message or issued an operation while this thread still owned could not start it, and parks;
      // Dekker's other half.
      if (!submissions_waiting_.load() && queue_.issued() == issued) waiter_->Sleep(*endpoint_, gate_.kick_fd(), wake);
      gate_.EndSleep();
    }
    if (!gate_.TryEnter()) return;
    Disarm();
    Look();  // what completes now, on the board, does so without another look
    // Idle still: who was woken to look around or to hear where a peer stands would otherwise poll and yield first, at
    // 2% of a core. Bytes end the idleness by moving.
  }
  gate_.Leave(WorkIsLeft());
}

bool CommunicatorCore::DriveUntil(TimePoint until, Sequence waited, Condition ready, Condition step) {
  waiters_.fetch_add(1);
  waits_.fetch_add(1, std::memory_order_relaxed);
  bool final;
  while (!(final = ready())) {
    if (gate_.TryEnter()) {
      Drive(until, waited, /*background=*/false, ready, step);
    } else {
      gate_.Park(until, ready);
    }
    if (CallbacksDue()) {
      waiters_.fetch_sub(1);
      if (progress_running_.load(std::memory_order_relaxed)) gate_.Announce();
      RunCallbacks();
      waiters_.fetch_add(1);
    }
    if (!(final = ready()) && clock_->Now() >= until) break;
    if (final) break;
  }
  waiters_.fetch_sub(1);
  // The progress thread stood back; what is left is its business again.
  if (progress_running_.load(std::memory_order_relaxed) && WorkIsLeft()) gate_.Announce();
  // Callbacks run with nothing held, and while the progress thread drives again: they may wait for other operations.
  if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
  return final;
}

Status CommunicatorCore::WaitFor(Sequence sequence, TimePoint until) {
  const bool final =
      DriveUntil(until, sequence, [&] { return queue_.completed() >= sequence || failure_.has_ended(); });
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
  if (!gate_.TryEnter()) return false;
  Disarm();
  const bool advanced = Advance();
  const TimePoint now = Look();
  const bool moved = endpoint_ != nullptr && !failure_.has_ended() &&
                     (advanced ? (CheckDeadlines(now, 0), true) : CheckForFailure(now, 0));
  gate_.Leave(WorkIsLeft());
  if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
  return moved;
}

void CommunicatorCore::Then(Sequence sequence, std::shared_ptr<MessageOperation> message,
                            std::function<void(const Status&)> done) {
  Callback callback{sequence, std::move(message), std::move(done)};
  const bool kept = IfMemoryAllows([&] {
    const std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(callback));
    callback_count_.store(callbacks_.size());
  });
  RunCallbacks();
  if (kept) return;
  Poison(OutOfMemoryWhile("keeping what is to be called"));
  callback.done(Fail(*failure()));
}

void CommunicatorCore::RunCallbacks() {
  callbacks_due_.store(false);
  const auto is_due = [&](const Callback& callback) {
    if (callback.message != nullptr) return callback.message->final.load();
    return queue_.completed() >= callback.sequence || failure_.has_ended();
  };
  while (true) {
    std::optional<Callback> due;
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(callbacks_.begin(), callbacks_.end(), is_due);
      if (at == callbacks_.end()) return;
      due = std::move(*at);
      callbacks_.erase(at);
      callback_count_.store(callbacks_.size(), std::memory_order_release);
    }
    due->done(due->message != nullptr ? *FinalStatus(*due->message) : *FinalStatus(due->sequence));
  }
}

bool CommunicatorCore::WorkIsLeft() const {
  return !failure_.has_ended() && (queue_.HasPending() || messages_pending_.load() > 0 || failure_.has_failed());
}

template <typename Stopped>
void CommunicatorCore::StandBack(Stopped stopped) {
  Duration time = kStandBackAtFirst;
  for (std::uint64_t seen = std::exchange(waits_seen_, waits_.load()); seen != waits_.load() && !stopped();
       time = std::min(2 * time, kStandBackAtMost)) {
    seen = waits_seen_ = waits_.load();
    gate_.Rest(time, stopped);
  }
}

void CommunicatorCore::ProgressThread() {
  const auto has_work = [&] { return waiters_.load() == 0 && WorkIsLeft(); };
  const auto stopped = [&] {
    const std::lock_guard lock(mutex_);
    return stop_;
  };
  while (!stopped()) {
    gate_.ParkUntil([&] { return has_work() || stopped(); });
    StandBack(stopped);
    if (stopped()) return;
    if (!has_work()) continue;
    const Sequence last = queue_.issued();
    const auto ready = [&] {
      return (queue_.completed() >= last && messages_pending_.load() == 0) || failure_.has_ended() || stopped();
    };
    if (gate_.TryEnter()) {
      Drive(TimePoint::max(), last, /*background=*/true, ready);
      if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
    } else {
      gate_.Park(clock_->Now() + suspicion_.graces().heartbeat_interval, ready);
    }
  }
}

}  // namespace rondo
