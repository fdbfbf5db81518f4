#include "collectives/communicator/failure.h"

#include "base/check.h"
#include "collectives/communicator/control.h"

namespace rondo {

void Failure::Enter(State next) {
  RONDO_CHECK(static_cast<int>(state_.load()) + 1 == static_cast<int>(next), "a failure skips a state");
  state_.store(next);
}

bool Failure::Set(const Error& cause, Rank reporter, Source source) {
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  if (cause_) return false;
  cause_ = cause;
  reporter_ = reporter;
  source_ = source;
  began_at_ = now;
  listener_.OnFailing();
  Enter(State::kFailed);
  return true;
}

void Failure::Begin(Error cause, std::optional<Rank> reporter, Source source) noexcept {
  IfMemoryAllows([&] { cause = names_.WithCulpritsHost(cause); });
  const Rank found_by = reporter.value_or(names_.self());
  if (!Set(cause, found_by, source)) return;
  if (!IfMemoryAllows([&] { Notify(cause, found_by); }))
    IfMemoryAllows([&] { Notify(Error::MemoryRanOut(), names_.self()); });
  Enter(State::kNotified);
  listener_.OnFailed();
}

void Failure::BeginEnd() {
  Enter(State::kEnding);
  IfMemoryAllows([&] { NotifyPeers(); });
}

void Failure::NotifyPeers() {
  if (const auto known = cause()) Notify(*known, reporter());
}

void Failure::Notify(const Error& error, Rank reporter) {
  const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(error, reporter))};
  endpoint_.Try([&](Endpoint& endpoint) {
    peers_.SendOnce(&Peer::is_notified, endpoint.ControlPeers(),
                    [&](Rank peer) { return endpoint.SendControl(peer, notice); });
  });
}

bool Failure::Answer(Rank peer) {
  const auto known = cause();
  if (!known) return false;
  endpoint_.Try([&](Endpoint& endpoint) {
    const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(*known, reporter()))};
    if (endpoint.SendControl(peer, notice)) peers_.OnNotified(peer);
  });
  return true;
}

void Failure::LeaveNotice() {
  const auto known = cause();
  if (known) endpoint_->LeaveBehind({ControlKind::kAbort, Encode(NoticeOf(*known, reporter()))});
}

std::optional<TimePoint> Failure::WaitForPeersUntil(const GracePeriods& graces) const {
  const MutexLock lock(mutex_);
  if (source_ == Source::kNotice) return std::nullopt;
  return Later(began_at_, graces.first_connections);
}

void Failure::FlushNotices(bool peers_may_connect, const GracePeriods& graces, ProgressLock& lock) {
  const std::optional<TimePoint> until = peers_may_connect ? WaitForPeersUntil(graces) : std::nullopt;
  const auto waits_for_peers = [&] {
    if (!until) return false;
    IfMemoryAllows([&] { NotifyPeers(); });
    return clock_.Now() < *until && peers_.HasUnnotified();
  };
  const auto checks = [&](Duration time) { return time / graces.notice_check_interval; };
  for (int check = 0; check < checks(graces.first_connections); ++check) {
    const bool waits = waits_for_peers();
    if (!waits && (check >= checks(graces.notice_flush) || endpoint_->ControlFlushed())) return;
    lock.Park(clock_.Now() + graces.notice_check_interval, [] { return false; });
  }
}

}  // namespace rondo
