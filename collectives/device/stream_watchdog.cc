#include "collectives/device/stream_watchdog.h"

#include <algorithm>

#include "base/service_thread.h"

namespace rondo {

StreamWatchdog::StreamWatchdog(WatchedStreams& watched, const Clock& clock, std::size_t most_operations,
                               Duration look_every)
    : watched_(watched), clock_(clock), look_every_(look_every), entries_(most_operations) {
  thread_ = StartServiceThread("rondo-streams", [this] { Run(); });
}

StreamWatchdog::~StreamWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamWatchdog::Issued(Sequence operation, const Issue& issue) {
  Entry& entry = entries_[operation % entries_.size()];
  entry.operation.store(0, std::memory_order_release);
  entry.deadline.store(issue.deadline, std::memory_order_release);
  entry.on_device.store(issue.on_device, std::memory_order_release);
  entry.operation.store(operation, std::memory_order_release);
  if (!issue.stream_waits) return;
  // As in Dekker's algorithm, this function and WaitForNextCheck each store first and then load. So at least one of the
  // two sees what the other stored.
  last_waited_for_.store(operation);
  if (!sleeps_.load()) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

std::optional<StreamWatchdog::UnderWay> StreamWatchdog::Find(Sequence operation) const {
  const Entry& entry = entries_[operation % entries_.size()];
  if (entry.operation.load() != operation) return std::nullopt;
  const UnderWay found{.operation = operation, .deadline = entry.deadline.load(), .on_device = entry.on_device.load()};
  if (entry.operation.load() != operation) return std::nullopt;  // the entry was overwritten meanwhile
  return found;
}

std::optional<StreamWatchdog::UnderWay> StreamWatchdog::FindMostUrgent(Sequence first) const {
  std::optional<UnderWay> urgent;
  for (Sequence operation = first; operation <= last_waited_for_.load(); ++operation) {
    const std::optional<UnderWay> found = Find(operation);
    if (found && (!urgent || found->deadline < urgent->deadline)) urgent = found;
  }
  return urgent;
}

void StreamWatchdog::Run() {
  TimePoint now;
  do {
    now = clock_.Now();
    if (!Look(now)) return;
  } while (WaitForNextCheck(now));
}

bool StreamWatchdog::WaitForNextCheck(TimePoint now) {
  std::unique_lock lock(mutex_);
  if (idle_ < kLooksUntilAsleep) return !changed_.wait_for(lock, next_look_ - now, [this] { return stop_; });
  sleeps_.store(true);
  changed_.wait(lock, [this] { return stop_ || SomeStreamWaits(); });
  sleeps_.store(false);
  idle_ = 0;
  return !stop_;
}

bool StreamWatchdog::LookAfterFailure() {
  if (watched_.has_ended()) return false;
  if (++failed_ <= (watched_.is_ending() ? kLooksWhileEnding : kLooksUntilRelease)) return true;
  watched_.ReleaseStreams();
  return false;
}

bool StreamWatchdog::Look(TimePoint now) {
  next_look_ = now + look_every_;
  if (watched_.has_failed()) return LookAfterFailure();
  const bool waits = SomeStreamWaits();
  idle_ = waits ? 0 : idle_ + 1;
  const Sequence first = watched_.completed() + 1;
  const std::uint64_t looks = watched_.looks();
  if (!waits || first != operation_ || looks != looks_) {
    operation_ = first;
    looks_ = looks;
    still_ = 0;
    still_since_ = now;
    return true;
  }
  ++still_;
  const std::optional<UnderWay> running = Find(first);
  const bool on_device = running && running->on_device;
  const bool is_driven = watched_.is_driven();
  if (is_driven && !on_device && still_ < kLooksAtWork) return true;
  const bool is_blocked = is_driven && still_ >= kLooksUntilBlocked;
  if (is_blocked && on_device && still_ == kLooksUntilBlocked) watched_.OnDriverBlocked(first, now - still_since_);
  const std::optional<UnderWay> urgent = FindMostUrgent(first);
  if (!urgent) return true;
  const TimePoint late = Later(urgent->deadline, is_blocked ? Duration::zero() : kOwnerSpeaksFirst);
  if (now < late) {
    next_look_ = std::min(next_look_, late);
  } else if (still_ >= kLooksUntilGivenUp) {
    watched_.OnLate(urgent->operation, is_driven);
  }
  return true;
}

}  // namespace rondo
