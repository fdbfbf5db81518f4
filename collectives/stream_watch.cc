#include "collectives/stream_watch.h"

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

void StreamWatch::Issued(Sequence operation, TimePoint deadline, bool on_device) {
  Entry& entry = entries_[operation % entries_.size()];
  entry.operation.store(0);
  entry.deadline.store(deadline);
  entry.on_device.store(on_device);
  entry.operation.store(operation);
  // Dekker's, with Rest: one of the two sees the other.
  if (!sleeps_.load()) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

std::optional<StreamWatch::UnderWay> StreamWatch::Find(Sequence operation) const {
  const Entry& entry = entries_[operation % entries_.size()];
  if (entry.operation.load() != operation) return std::nullopt;
  const UnderWay found{.deadline = entry.deadline.load(), .on_device = entry.on_device.load()};
  if (entry.operation.load() != operation) return std::nullopt;  // it was written anew meanwhile
  return found;
}

void StreamWatch::Run() {
  TimePoint now;
  do {
    now = clock_.Now();
    if (!Look(now)) return;
  } while (Rest(now, idle_ >= kLooksUntilAsleep));
}

bool StreamWatch::Rest(TimePoint now, bool sleeps) {
  std::unique_lock lock(mutex_);
  if (!sleeps) return !changed_.wait_for(lock, next_look_ - now, [this] { return stop_; });
  sleeps_.store(true);
  changed_.wait(lock, [this] { return stop_ || Find(watched_.completed() + 1).has_value(); });
  sleeps_.store(false);
  idle_ = 0;
  return !stop_;
}

bool StreamWatch::Look(TimePoint now) {
  next_look_ = now + look_every_;
  if (watched_.has_failed()) {
    if (watched_.has_ended()) return false;
    if (++failed_ <= kLooksUntilLetGo) return true;
    watched_.LetStreamsGo();
    return false;
  }
  const Sequence operation = watched_.completed() + 1;
  const std::optional<UnderWay> found = Find(operation);
  idle_ = found ? 0 : idle_ + 1;
  const std::uint64_t looks = watched_.looks();
  if (!found || operation != operation_ || looks != looks_) {
    operation_ = operation;
    looks_ = looks;
    still_ = 0;
    still_since_ = now;
    return true;
  }
  ++still_;
  const bool held_up = found->on_device && still_ >= kLooksUntilHeldUp && watched_.is_driven();
  if (held_up && still_ == kLooksUntilHeldUp) watched_.OnHeldUp(operation, now - still_since_);
  const TimePoint late = Later(found->deadline, held_up ? Duration::zero() : kOwnerSpeaksFirst);
  if (now >= late) {
    watched_.OnLate(operation, held_up);
  } else {
    next_look_ = std::min(next_look_, late);
  }
  return true;
}

}  // namespace rondo
