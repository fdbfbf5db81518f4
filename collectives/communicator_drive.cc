// Who waits, drives: how a core moves its operations on, in the thread that waits or in the progress thread.
#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "collectives/communicator_core.h"
#include "collectives/integrity/result_digest.h"
#include "collectives/schedule/layout.h"

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
  if (endpoint_ == nullptr) return false;  // destroyed, but a Work or a parent's Abort still holds this core
  if (poisoned_.load(std::memory_order_acquire)) {
    if (ended_.load(std::memory_order_relaxed)) {
      endpoint_->Poll(Look());  // late comers are still heard, and told
      return false;
    }
    // Whoever was the first to fail tells the peers, which is to be done when a call returns: its process may end then.
    if (!told_.load()) return false;
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
    if (poisoned_.load(std::memory_order_acquire)) return true;
  }
  while (true) {
    if (!IsRunning()) {
      if (completed_.load(std::memory_order_relaxed) == issued_.load(std::memory_order_acquire)) return moved;
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
    still_since_.reset();
    if (*progress == Progress::kMoved) return true;
    trouble_since_.reset();
    CompleteCurrent();
    if (const Status equal = CompareResults(); !equal) {
      Poison(equal.error());
      return true;
    }
    RecordEnd(look);
    completed_.store(completed_.load(std::memory_order_relaxed) + 1);
    if (callback_count_.load() > 0) callbacks_due_.store(true);
    gate_.Announce(/*work=*/false);
    moved = true;
  }
}

// A message that was just issued goes out before anything else is looked at: its peer waits. Not always, for who sends
// again and again must look as well.
bool CommunicatorCore::MayStartMessagesFirst() {
  if (!submissions_waiting_.load(std::memory_order_relaxed) || IsRunning() ||
      completed_.load(std::memory_order_relaxed) != issued_.load(std::memory_order_relaxed))
    return false;
  return ++starts_ % kStartsPerEndpointPoll != 0;
}

// The first operation of all waits until it is known whether there is a board: so all ranks take the same path.
Result<bool> CommunicatorCore::SettleBoard() {
  if (board_ == nullptr) {
    RONDO_ASSIGN(board_, endpoint_->OpenBoard());
    // A peer that has failed already answers with the reason.
    for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, {ControlKind::kHeartbeat, {}});
  }
  if (board_->state() == BoardState::kMaking) return false;  // if it has failed, LookForTrouble ends the waiting
  board_settled_ = true;
  if (board_->state() == BoardState::kReady) {
    runner_->UseBoard(*board_);
  } else {
    may_have_board_.store(false);
  }
  return true;
}

// Gives a request that was to go over the board another algorithm where there is none; on all ranks the same.
Status CommunicatorCore::Settle(OperationRequest& request) const {
  OperationDescriptor& d = request.descriptor;
  if (d.algorithm != Algorithm::kBoard || runner_->has_board()) return {};
  if (request.algorithm_is_asked)
    return Fail(ErrorCode::kUnsupported, "{}: there is no board: {}", d.ToString(), board_->why());
  RONDO_ASSIGN(const Selection instead, selector_->Choose(std::nullopt, CallOf(d, request.reproducible)));
  d.algorithm = instead.algorithm;
  return {};
}

Result<bool> CommunicatorCore::StartNext() {
  if (!board_settled_) {
    RONDO_ASSIGN(const bool settled, SettleBoard());
    if (!settled) return false;
  }
  words_seen_ = 0;  // what peers said before this operation is judged again in its light
  OperationRequest& request = PendingOf(completed_.load(std::memory_order_relaxed) + 1).request;
  RONDO_TRY(Settle(request));
  if (request.staging != nullptr) {
    staging_.Start(request, *device_queue_);
    on_devices_ = MayRunOnDevices(request) ? OnDevices::kUntried : OnDevices::kDeclined;
    return true;
  }
  if (request.program != nullptr) [[unlikely]] {
    if (!runner_->ServesDevices(request.descriptor)) {  // on no rank
      request.program->declined = "there is no board: " + board_->why();
      return true;
    }
    RONDO_ASSIGN(const OperationBuffers buffers, BuffersOf(request));
    std::string why;
    runner_->StartOnDevices(request.descriptor, buffers, request.scale, request.in_place, device_queue_->peers(why),
                            request.program);
    return true;
  }
  RONDO_TRY(Begin(request));
  return true;
}

Result<OperationBuffers> CommunicatorCore::BuffersOf(const OperationRequest& request) {
  OperationBuffers buffers;
  if (request.wide()) {
    RONDO_ASSIGN(buffers, wide_partials_.Begin(request.input, request.input_elements, request.type, request.in_place));
  } else {
    buffers.input = static_cast<const std::byte*>(request.input);
    buffers.output = static_cast<std::byte*>(request.output);
    // In place, the engine is given the larger.
    if (request.in_place && request.output_elements < request.input_elements)
      buffers.output -= request.own_at * SizeOf(request.type);
  }
  if (request.counts != nullptr) buffers.counts = *request.counts;
  return buffers;
}

Status CommunicatorCore::Begin(const OperationRequest& request) {
  const OperationDescriptor& d = request.descriptor;
  for (const auto& mover : movers_) mover->Use(request.user);
  for (DeviceReadingMover* const mover : reading_movers_) mover->Use(&staging_, staging_.input_of_window());
  RONDO_ASSIGN(const OperationBuffers buffers, BuffersOf(request));
  if (d.algorithm == Algorithm::kBoard) {
    runner_->StartOnBoard(d, buffers, request.scale, request.in_place);
    return {};
  }
  RONDO_ASSIGN(const Plan* plan, PlanOf(request, request.in_place));
  return runner_->Start(*plan, d, buffers, request.scale);
}

Result<const Plan*> CommunicatorCore::PlanOf(const OperationRequest& request, bool in_place) {
  const OperationDescriptor& d = request.descriptor;
  return plans_.Get({.collective = d.collective,
                     .algorithm = d.algorithm,
                     .world_size = world_size(),
                     .root = d.root,
                     .in_place = in_place,
                     .scaled = Reduces(d.collective) && d.op == ReduceOp::kPremulSum,
                     .hosts = d.algorithm == Algorithm::kHierarchical ? &hosts_ : nullptr});
}

Result<Progress> CommunicatorCore::PollCurrent() {
  if (staging_.running()) [[unlikely]]
    return PollOnDevices();
  if (!runner_->running()) [[unlikely]]
    return Progress::kComplete;  // it was declined when it started
  return runner_->Poll();
}

// Alike on all ranks. What a processor must see, or does, is done by way of the host: results that are compared or
// rounded once, functions of users.
bool CommunicatorCore::MayRunOnDevices(const OperationRequest& request) const {
  return options_.device_peers && !request.wide() && !request.compares && request.descriptor.count > 0 &&
         request.descriptor.algorithm == Algorithm::kBoard && runner_->ServesDevices(request.descriptor);
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
    RONDO_ASSIGN(const OperationBuffers buffers, BuffersOf(request));
    std::string why;
    runner_->StartOnDevices(request.descriptor, buffers, request.scale, request.in_place, device_queue_->peers(why));
  }
  RONDO_ASSIGN(const Progress progress, runner_->Poll());
  if (progress != Progress::kComplete) return progress;
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

// Whether nothing else is under way and all is settled. Now and then it says no, so that the endpoint is polled.
bool CommunicatorCore::MayRunAtOnce(const OperationRequest& request) {
  if (request.descriptor.count * SizeOf(request.descriptor.type) > kBytesAtOnce) return false;
  if (endpoint_ == nullptr || armed_ || !runner_->has_board()) return false;
  if (messages_in_use_.load(std::memory_order_relaxed)) return false;
  if (completed_.load(std::memory_order_relaxed) != issued_.load(std::memory_order_relaxed)) return false;
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
  still_since_.reset();
  trouble_since_.reset();
  const bool spins = wait_policy_.spin > Duration::zero() && !contention_.is_wanted();
  runner_->RunsOn(waiter_->Core());
  int yields = 0;
  for (int polls = 1; polls <= kPollsAtOnce; ++polls) {
    if (poisoned_.load(std::memory_order_acquire)) return false;
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
    completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  return false;
}

Error CommunicatorCore::InOperation(const Error& found) const {
  return found.With([&](ErrorDetails& d) {
    const OperationDescriptor operation = RunningOperation();
    if (d.collective.empty()) d.collective = operation.ToString();
    if (!d.sequence) d.sequence = operation.sequence;
  });
}

void CommunicatorCore::CompleteCurrent() {
  const OperationRequest& request = PendingOf(completed_.load(std::memory_order_relaxed) + 1).request;
  if (request.staging != nullptr) return device_queue_->Leave(request.descriptor.sequence);
  End(request);
}

void CommunicatorCore::End(const OperationRequest& request) {
  const std::uint64_t first = request.output_elements < request.input_elements ? request.own_at : 0;
  if (request.wide()) wide_partials_.End(request.output, first, request.output_elements, request.type);
  if (request.compares) [[unlikely]] {  // before the memory is the user's again
    request.comparison->of = request.descriptor;
    request.comparison->own =
        Crc32c(Bytes(static_cast<const std::byte*>(request.output), request.output_elements * SizeOf(request.type)),
               request.comparison->own);
  }
}

Status CommunicatorCore::CompareResults() {
  const OperationRequest& request = PendingOf(completed_.load(std::memory_order_relaxed) + 1).request;
  if (request.compares || request.comparison == nullptr) return {};
  const auto odd = FindOddResults(request.comparison->all);
  if (!odd) return {};
  return Fail(odd->With([&](ErrorDetails& d) {
    d.collective = request.comparison->of.ToString();
    d.sequence = request.comparison->of.sequence;
  }));
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

void CommunicatorCore::Drive(TimePoint until, Sequence waited, bool background, Condition ready) {
  // REQUIRES ownership; gives it up in every way out.
  Disarm();
  std::optional<TimePoint> idle_since;
  std::uint32_t idle_polls = 0, moved_polls = 0;
  bool glanced = false;
  while (true) {
    looked_ = false;
    const bool moved = Advance();
    if (ready() || CallbacksDue() || (background && waiters_.load() > 0)) break;
    if (moved) {
      idle_since.reset();
      idle_polls = 0;
      // A long operation on a slow machine may always have something to move.
      if (++moved_polls % kPollsBetweenClockReads == 0) {
        const TimePoint now = Look();
        if (now >= until) break;
        if (!poisoned_.load(std::memory_order_acquire)) LookAtDeadlines(now, waited);
      }
      continue;
    }
    const BoardPath::Awaited awaited = runner_->WhereAreAwaited();
    const WaitPolicy policy = PolicyFor(awaited);
    // At most every other time, so that the clock is looked at whatever the board shows.
    glanced = !glanced && policy.spin > Duration::zero() && (runner_->GlanceAtBoard() || GlanceAtMessages());
    if (glanced) continue;
    const TimePoint now = looked_ ? last_look_ : Look();
    if (start_is_coarse_) RecordWaiting();
    if (!idle_since) idle_since = now;
    if (LookForTrouble(now, waited)) continue;
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
    TimePoint wake = std::min(until, now + (staging_.running() ? kLookAtDeviceEvery : kLookAroundEvery));
    if (messages) wake = std::min(wake, messages_->next_deadline());
    const Sequence current = completed_.load(std::memory_order_relaxed) + 1;
    if (current <= issued_.load(std::memory_order_acquire)) wake = std::min(wake, DeadlineOf(current));
    if (!gate_.LeaveToSleep()) {
      gate_.Park(wake, [&] { return ready() || CallbacksDue() || (background && waiters_.load() > 0); });
    } else {
      // Whoever submitted a message while this thread still owned could not start it; Dekker's other half.
      if (!submissions_waiting_.load()) waiter_->Sleep(*endpoint_, gate_.kick_fd(), wake);
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

bool CommunicatorCore::DriveUntil(TimePoint until, Sequence waited, Condition ready) {
  waiters_.fetch_add(1);
  waits_.fetch_add(1, std::memory_order_relaxed);
  bool final;
  while (!(final = ready())) {
    if (gate_.TryEnter()) {
      Drive(until, waited, /*background=*/false, ready);
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
  const bool final = DriveUntil(until, sequence, [&] { return completed_.load() >= sequence || ended_.load(); });
  if (completed_.load() >= sequence) return {};
  if (!final) return Fail(ErrorCode::kNotReady, "operation #{} is still under way", sequence);
  return Fail(*failure());
}

Status CommunicatorCore::WaitForGood(Sequence sequence) { return WaitFor(sequence, TimePoint::max()); }

std::optional<Status> CommunicatorCore::FinalStatus(Sequence sequence) const {
  if (completed_.load() >= sequence) return Status{};
  if (ended_.load()) return Status(Fail(*failure()));
  return std::nullopt;
}

bool CommunicatorCore::ProgressOnce() {
  if (!gate_.TryEnter()) return false;
  Disarm();
  const bool advanced = Advance();
  const TimePoint now = Look();
  const bool moved =
      endpoint_ != nullptr && !ended_.load() && (advanced ? (LookAtDeadlines(now, 0), true) : LookForTrouble(now, 0));
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
    return completed_.load() >= callback.sequence || ended_.load();
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
  return !ended_.load() && (issued_.load() > completed_.load() || messages_pending_.load() > 0 || poisoned_.load());
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
    const Sequence last = issued_.load(std::memory_order_acquire);
    const auto ready = [&] {
      return (completed_.load() >= last && messages_pending_.load() == 0) || ended_.load() || stopped();
    };
    if (gate_.TryEnter()) {
      Drive(TimePoint::max(), last, /*background=*/true, ready);
      if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
    } else {
      gate_.Park(clock_->Now() + kLookAroundEvery, ready);
    }
  }
}

}  // namespace rondo
