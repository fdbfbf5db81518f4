#include "collectives/device/stream_watch.h"

#include <algorithm>

#include "base/service_thread.h"

namespace rondo {

StreamWatch::StreamWatch(WatchedStreams& watched, const Clock& clock, std::size_t most_operations, Duration look_every)
    : watched_(watched), clock_(clock), look_every_(look_every), entries_(most_operations) {
  thread_ = StartServiceThread("rondo-streams", [this] { Run(); });
}

StreamWatch::~StreamWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamWatch::Issued(Sequence operation, const Issue& issue) {
  Entry& entry = entries_[operation % entries_.size()];
  entry.operation.store(0, std::memory_order_release);
  entry.deadline.store(issue.deadline, std::memory_order_release);
  entry.on_device.store(issue.on_device, std::memory_order_release);
  entry.operation.store(operation, std::memory_order_release);
  if (!issue.stream_waits) return;
  // Dekker's algorithm, together with Rest: at least one of the two sees the other's store.
  last_waited_for_.store(operation);
  if (!sleeps_.load()) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

std::optional<StreamWatch::UnderWay> StreamWatch::Find(Sequence operation) const {
  const Entry& entry = entries_[operation % entries_.size()];
  if (entry.operation.load() != operation) return std::nullopt;
  const UnderWay found{.operation = operation, .deadline = entry.deadline.load(), .on_device = entry.on_device.load()};
  if (entry.operation.load() != operation) return std::nullopt;  // the entry was overwritten meanwhile
  return found;
}

std::optional<StreamWatch::UnderWay> StreamWatch::FindMostUrgent(Sequence first) const {
  std::optional<UnderWay> urgent;
  for (Sequence operation = first; operation <= last_waited_for_.load(); ++operation) {
    const std::optional<UnderWay> found = Find(operation);
    if (found && (!urgent || found->deadline < urgent->deadline)) urgent = found;
  }
  return urgent;
}

void StreamWatch::Run() {
  TimePoint now;
  do {
    now = clock_.Now();
    if (!Look(now)) return;
  } while (Rest(now));
}

bool StreamWatch::Rest(TimePoint now) {
  std::unique_lock lock(mutex_);
  if (idle_ < kLooksUntilAsleep) return !changed_.wait_for(lock, next_look_ - now, [this] { return stop_; });
  sleeps_.store(true);
  changed_.wait(lock, [this] { return stop_ || SomeStreamWaits(); });
  sleeps_.store(false);
  idle_ = 0;
  return !stop_;
}

bool StreamWatch::LookAfterFailure() {
  if (watched_.has_ended()) return false;
  if (++failed_ <= (watched_.is_ending() ? kLooksWhileEnding : kLooksUntilLetGo)) return true;
  watched_.LetStreamsGo();
  return false;
}

bool StreamWatch::Look(TimePoint now) {
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
  const bool held_up = is_driven && still_ >= kLooksUntilHeldUp;
  if (held_up && on_device && still_ == kLooksUntilHeldUp) watched_.OnHeldUp(first, now - still_since_);
  const std::optional<UnderWay> urgent = FindMostUrgent(first);
  if (!urgent) return true;
  const TimePoint late = Later(urgent->deadline, held_up ? Duration::zero() : kOwnerSpeaksFirst);
  if (now < late) {
    next_look_ = std::min(next_look_, late);
  } else if (still_ >= kLooksUntilGivenUp) {
    watched_.OnLate(urgent->operation, is_driven);
  }
  return true;
}

}  // namespace rondo
