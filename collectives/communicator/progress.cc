#include "collectives/communicator/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/service_thread.h"
#include "base/tasks.h"

namespace rondo {
namespace {

// Number of polls between two yields while spinning. A yield costs about half a microsecond if no other thread wants
// the core. Without yields, two ranks that the scheduler put on one core would both spin until their spin time is over.
constexpr std::uint32_t kPollsBetweenYields = 8;
// If all awaited ranks run on other cores, a yield only helps other programs, so this thread yields less often.
constexpr std::uint32_t kPollsBetweenYieldsToOthers = 64;
// If the awaited ranks run on other cores, a rank polls at least this long before it gives its core away, whatever the
// policy. This harms no rank that shares the core, because that rank waits for the same ranks.
constexpr Duration kSpinForOtherCores = std::chrono::microseconds(20);
// A waiting thread advances operations at a lower cost than the progress thread, because each change between the two
// costs two system calls and uses a second core. So the progress thread waits before it begins. The more often it finds
// that other threads have waited meanwhile, the longer it waits.
constexpr Duration kMinStandBack = std::chrono::microseconds(100);
constexpr Duration kMaxStandBack = std::chrono::milliseconds(1);
// Number of polls between two reads of the clock while bytes move.
constexpr std::uint32_t kPollsBetweenClockReads = 64;

}  // namespace

WaitPolicy WaitPolicy::For(int local_ranks, int cores, bool sleeps) {
  // If every rank has a core, polling notices an answer ten times sooner than a wake-up across cores (about 50 us on
  // virtual machines). If ranks share cores, a rank that polls keeps its peer from running, so it must give the core
  // away. It yields before it sleeps, because two ranks that both sleep wait for two wake-ups at each exchange. If a
  // wake-up takes longer than the ranks poll, as on an emulated processor, they would sleep for every message.
  if (local_ranks <= cores) return {.spin = std::chrono::microseconds(200), .yield = YieldsAtOnce().yield};
  return sleeps ? WaitPolicy{} : YieldsAtOnce();
}

ProgressLoop::ProgressLoop(const ProgressOptions& options, ProgressSource& source, const Callbacks& callbacks,
                           const Clock& clock, Waiter& waiter)
    : options_(options),
      source_(source),
      callbacks_(callbacks),
      clock_(clock),
      waiter_(waiter),
      contention_(waiter.LongYield()),
      seen_running_at_(clock.Now()) {}

ProgressLoop::~ProgressLoop() { RONDO_CHECK(!thread_.joinable(), "a progress thread outlived its communicator"); }

void ProgressLoop::Enter() {
  while (!lock_.TryEnter()) lock_.Park(clock_.Now() + options_.heartbeat_interval, [] { return false; });
}

void ProgressLoop::Disarm() {
  if (std::exchange(armed_, false)) source_.Disarm();
}

void ProgressLoop::Yield() {
  const TimePoint before = clock_.Now();
  waiter_.Yield();
  contention_.OnYield(Look() - before);
}

// A policy that sleeps at once stays unchanged, wherever the awaited ranks run.
WaitPolicy ProgressLoop::PolicyFor(AwaitedRanks awaited) const {
  WaitPolicy policy = contention_.is_wanted() ? options_.shared_core_policy : options_.policy;
  const Duration awake = policy.spin + policy.yield;
  if (awake == Duration::zero()) return policy;
  if (awaited == AwaitedRanks::kOnThisCore) policy = {.spin = {}, .yield = awake};
  if (awaited == AwaitedRanks::kOnOtherCores) policy.spin = std::max(policy.spin, kSpinForOtherCores);
  return policy;
}

// If the time since the last check exceeds options_.pause, all of that time is a pause for the pending operations. This
// includes any part in which no thread waited. In such a part the caller was between issuing the operation and waiting
// for it, or the progress thread was about to begin.
void ProgressLoop::CheckForPause(TimePoint now, const Wait& wait) {
  const TimePoint begin = std::exchange(seen_running_at_, now);
  if (now - begin <= options_.pause || !waiter_.SeesPauses()) return;
  source_.OnPause(begin, now);
  if (wait.until == TimePoint::max()) return;
  if (const Duration pause = now - std::max(begin, wait.begin); pause > options_.pause)
    wait.until = Later(wait.until, pause);
}

void ProgressLoop::AdvanceLoop(const Wait& wait, Sequence waited, bool background, Condition ready, Condition step) {
  Disarm();
  std::optional<TimePoint> idle_since;
  std::uint32_t idle_polls = 0, moved_polls = 0;
  bool glanced = false;
  const auto must_leave = [&] { return ready() || callbacks_.due() || (background && waiters_.load() > 0); };
  while (true) {
    looked_ = false;
    const ProgressSource::Advanced advanced = source_.Advance();
    step();
    if (must_leave()) break;
    if (advanced.moved) {
      idle_since.reset();
      idle_polls = 0;
      // Deadlines are checked here, too, because on a slow machine a long operation may have something to move at every
      // poll.
      if (++moved_polls % kPollsBetweenClockReads == 0) {
        const TimePoint now = Look();
        CheckForPause(now, wait);
        if (now >= wait.until) break;
        source_.CheckWhileMoving(now, waited);
      }
      continue;
    }
    const WaitPolicy policy = PolicyFor(advanced.awaited);
    // No two glances follow each other, so that the clock is read even if every glance sees something.
    glanced = !glanced && policy.spin > Duration::zero() && source_.Glance();
    if (glanced) continue;
    const TimePoint now = looked_ ? last_look_ : Look();
    CheckForPause(now, wait);
    if (!idle_since) idle_since = now;
    if (source_.CheckWhileBlocked(now, waited)) continue;
    if (now >= wait.until) break;
    const Duration idle = now - *idle_since;
    if (idle < policy.spin) {
      // The peer may share this core. Then its bytes arrive only if this thread gives the core away.
      const bool on_other_cores = advanced.awaited == AwaitedRanks::kOnOtherCores;
      if (++idle_polls % (on_other_cores ? kPollsBetweenYieldsToOthers : kPollsBetweenYields) == 0) Yield();
      continue;
    }
    if (idle < policy.spin + policy.yield) {
      // If the awaited rank runs on this core, the duration of the yield is not measured, because it says nothing about
      // other programs.
      advanced.awaited == AwaitedRanks::kOnThisCore ? waiter_.Yield() : Yield();
      continue;
    }

    const ProgressSource::BeforeSleep before = source_.PrepareToSleep();
    if (before == ProgressSource::BeforeSleep::kYield) Yield();
    if (before != ProgressSource::BeforeSleep::kSleep) continue;
    armed_ = true;
    if (source_.Arm()) {
      Disarm();
      continue;
    }
    const TimePoint wake = std::min(wait.until, source_.WakeTime(now));
    if (!lock_.LeaveToSleep()) {
      lock_.Park(wake, must_leave);
    } else {
      // While this thread was still the owner, another thread may have issued an operation or submitted a message. That
      // thread could not advance its work, so it parked. This check is the other half of Dekker's handshake.
      if (!source_.HasWorkSince(advanced.issued)) source_.Sleep(lock_.kick_fd(), wake);
      lock_.EndSleep();
    }
    if (!lock_.TryEnter()) return;
    Disarm();
    // Reads the clock here, so that the next operation in shared memory completes without reading it.
    Look();
    // idle_since stays set: otherwise a thread that woke up only to check its peers would poll and yield first, which
    // takes 2% of a core. It is reset as soon as bytes move.
  }
  // The remaining operations may belong to a caller that only issued them, and now computes for a long time. So this
  // thread looks for a pause before that time begins.
  if (source_.HasWork()) CheckForPause(Look(), wait);
  Leave();
}

bool ProgressLoop::AdvanceUntil(TimePoint& until, Sequence waited, Condition ready, Condition step) {
  waiters_.fetch_add(1);
  waits_.fetch_add(1, std::memory_order_relaxed);
  const bool ends = until != TimePoint::max();
  const Wait wait{.begin = ends ? clock_.Now() : TimePoint(), .until = until};
  bool final;
  while (!(final = ready())) {
    if (lock_.TryEnter()) {
      // Without a progress thread, a caller may compute for a long time between two short waits for an operation. That
      // time counts, so that the operation times out at last.
      if (ends && !options_.has_thread) OnSeenRunning(std::max(wait.begin, seen_running_at_));
      AdvanceLoop(wait, waited, /*background=*/false, ready, step);
    } else {
      lock_.Park(wait.until, ready);
    }
    if (callbacks_.due()) {
      waiters_.fetch_sub(1);
      if (thread_runs_.load(std::memory_order_relaxed)) lock_.Announce();
      source_.RunCallbacks();
      waiters_.fetch_add(1);
    }
    if (!(final = ready()) && clock_.Now() >= until) break;
    if (final) break;
  }
  waiters_.fetch_sub(1);
  // The progress thread, which was idle because of this thread, now advances the remaining operations.
  if (thread_runs_.load(std::memory_order_relaxed) && source_.HasWork()) lock_.Announce();
  // Callbacks run with no lock held, and while the progress thread can advance operations, because callbacks may
  // wait for other operations.
  if (!callbacks_.empty()) source_.RunCallbacks();
  return final;
}

Status ProgressLoop::CallThread() {
  if (!options_.has_thread) return {};
  if (thread_runs_.exchange(true)) {
    lock_.Announce();
    return {};
  }
  const Status made = OrOutOfMemory("making the progress thread", [&]() -> Status {
    try {
      thread_ = StartServiceThread("rondo-progress", [this] { RunThread(); });
      return {};
    } catch (const std::system_error& error) {
      return Fail(ErrorCode::kResource, "the progress thread cannot be started: {}", TaskWords(error.code().value()));
    }
  });
  if (!made) thread_runs_.store(false);
  return made;
}

void ProgressLoop::StopThread() {
  stop_.store(true);
  lock_.Announce();
  if (thread_.joinable()) thread_.join();
}

void ProgressLoop::StandBack() {
  Duration time = kMinStandBack;
  for (std::uint64_t seen = std::exchange(waits_seen_, waits_.load()); seen != waits_.load() && !stop_.load();
       time = std::min(2 * time, kMaxStandBack)) {
    seen = waits_seen_ = waits_.load();
    lock_.ParkFor(time, [&] { return stop_.load(); });
  }
}

void ProgressLoop::RunThread() {
  const auto has_work = [&] { return waiters_.load() == 0 && source_.HasWork(); };
  while (!stop_.load()) {
    lock_.ParkUntil([&] { return has_work() || stop_.load(); });
    StandBack();
    if (stop_.load()) return;
    if (!has_work()) continue;
    const Sequence last = source_.issued();
    const auto ready = [&] { return source_.HasEnded(last) || stop_.load(); };
    if (lock_.TryEnter()) {
      TimePoint never = TimePoint::max();
      AdvanceLoop({.begin = {}, .until = never}, last, /*background=*/true, ready, kNoStep);
      if (!callbacks_.empty()) source_.RunCallbacks();
    } else {
      lock_.Park(clock_.Now() + options_.heartbeat_interval, ready);
    }
  }
}

}  // namespace rondo
