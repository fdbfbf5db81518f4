#include "collectives/communicator/suspicion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/communicator/peer_errors.h"

namespace rondo {
namespace {

double SecondsOf(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

bool Suspicion::OnBlocked(TimePoint now) {
  if (!blocked_since_) blocked_since_ = last_heartbeat_at_ = now;
  if (now - last_heartbeat_at_ < graces_.heartbeat_interval) return false;
  last_heartbeat_at_ = now;
  return true;
}

// ---- disagreements ----

Error Suspicion::Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const {
  return WithCulprit(ErrorCode::kMismatch,
                     fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}",
                                 self_, own.sequence, own.ToString(), peer, theirs.sequence, theirs.ToString()),
                     peer);
}

std::optional<Error> Suspicion::JudgePeer(Rank peer, const PeerView& view, bool is_awaited,
                                          const OwnOperation& own) const {
  for (const OperationDescriptor* theirs :
       {view.goodbye ? &view.goodbye->last : nullptr, view.report ? &view.report->current : nullptr}) {
    if (own.is_joining || theirs == nullptr) continue;
    if (theirs->sequence == own.descriptor.sequence && *theirs != own.descriptor)
      return Disagreement(peer, own.descriptor, *theirs);
  }
  const bool has_left = view.goodbye && view.goodbye->last.sequence < own.descriptor.sequence;
  if (!has_left || (!own.needs_all && !is_awaited)) return std::nullopt;
  return ClosedEarly(peer, view.goodbye->last, self_, own.descriptor, view.goodbye->refused);
}

std::optional<Error> Suspicion::JudgeGoodbye(Rank peer, const PeerView& view, const OperationDescriptor& last) const {
  if (!view.goodbye || view.goodbye->last == last) return std::nullopt;
  return Disagreement(peer, last, view.goodbye->last);
}

std::optional<Error> Suspicion::JudgeReportInClose(Rank peer, const PeerView& view, const OperationDescriptor& last,
                                                   std::string_view refused) const {
  if (!view.report || view.report->current.sequence <= last.sequence) return std::nullopt;
  return ClosedEarly(self_, last, peer, view.report->current, refused);
}

// ---- lanes and connections ----

Verdict Suspicion::JudgeLaneFailure(const LaneFailure& failure, TimePoint now) {
  if (!lane_failed_at_ || lane_failed_with_ != failure.peer) {
    lane_failed_at_ = now;
    lane_failed_with_ = failure.peer;
  }
  const bool peer_reports_first = failure.peer > self_;
  const Duration grace =
      graces_.lane_failure_cause + (peer_reports_first ? graces_.higher_rank_report : Duration::zero());
  if (now - *lane_failed_at_ < grace) return {.wait_until = *lane_failed_at_ + grace};
  const Error error =
      failure.error != nullptr
          ? *failure.error
          : Error(ErrorCode::kConnectionReset,
                  fmt::format("rank {} ended its lane to rank {} while bytes are still expected", failure.peer, self_));
  // If only this rank can be at fault, the lane's error names this rank as the culprit.
  return {.error = AttributeLoss(error, error.culprit() == self_ ? self_ : failure.peer, self_)};
}

Error Suspicion::AttributeLoss(const Error& error, Rank peer, Rank self) {
  return error.With([&](ErrorDetails& d) {
    const bool here = d.code == ErrorCode::kResource || peer == self;
    d.culprit = here ? self : peer;
    if (here) d.host.clear();  // the host in the error is the peer's, not this rank's
  });
}

// ---- deadlines ----

Verdict Suspicion::JudgeLate(const LateOperation& late, bool is_first, std::span<const BlockedOn> blocked,
                             TimePoint now) {
  const Sequence sequence = late.descriptor.sequence;
  if (is_first && deadline_extended_for_ != sequence && OthersReportFirst(blocked, now)) {
    deadline_extended_for_ = sequence;
    return {.wait_until = Later(late.deadline, graces_.timeout_report_delay)};
  }
  return {.error = TimeoutOf(late, blocked, now)};
}

bool Suspicion::OthersReportFirst(std::span<const BlockedOn> blocked, TimePoint now) const {
  // With two ranks, neither of them has better evidence than the other.
  if (world_size_ <= 2) return false;
  bool has_steps = false;
  for (const BlockedOn& on : blocked) {
    if (on.is_joining) continue;
    if (now >= Later(on.last_received_at, graces_.silence)) return false;
    has_steps = true;
  }
  return has_steps;
}

Duration Suspicion::SilenceOf(const BlockedOn& on, TimePoint now) const {
  return now - std::min(now, std::max(on.last_received_at, blocked_since_.value_or(now)));
}

std::string Suspicion::DescribeSilence(const BlockedOn& on, TimePoint now) const {
  // While the connection to a peer is being made, the peer cannot send anything. `path` describes the connection.
  if (!on.is_connected) return "";
  const Duration silence = SilenceOf(on, now);
  return silence >= graces_.silence ? fmt::format("; connected and silent for {:.3f} s", SecondsOf(silence))
                                    : fmt::format("; connected, last message {:.3f} s ago", SecondsOf(silence));
}

std::string Suspicion::Describe(const BlockedOn& on, const LateOperation& late, TimePoint now) const {
  const BlockedStep& step = on.step;
  const std::string silence = DescribeSilence(on, now);
  if (on.is_joining) return fmt::format("rank {} (to set up shared memory{}; {})", step.peer, silence, on.path);
  const std::string rail = late.names_rails ? fmt::format(" on rail {}", step.rail) : "";
  if (!step.started)
    return fmt::format("rank {} (nothing of this operation {}{}{}; {})", step.peer,
                       step.sending ? "could be sent" : "arrived", rail, silence, on.path);
  // The rate distinguishes a slow link from a dead one.
  return fmt::format("rank {} ({} of {} bytes of step {} {}{}, {:.3g} MB/s{})", step.peer, step.bytes_done,
                     step.bytes_due, step.step, step.sending ? "sent" : "arrived", rail,
                     static_cast<double>(step.bytes_done) / SecondsOf(late.timeout) / 1e6, silence);
}

Error Suspicion::TimeoutOf(const LateOperation& late, std::span<const BlockedOn> blocked, TimePoint now) const {
  std::vector<std::string> missing;
  Rank culprit = kNoRank;
  Duration longest_silence = Duration::zero();
  for (const BlockedOn& on : blocked) {
    const Duration silence = SilenceOf(on, now);
    if (culprit == kNoRank || (!on.is_joining && silence > longest_silence + graces_.silence)) {
      culprit = on.step.peer;
      longest_silence = silence;
    }
    missing.push_back(Describe(on, late, now));
  }
  if (missing.empty() && !late.local_wait.empty()) {
    culprit = self_;
    missing.push_back(late.local_wait);
  }
  return WithCulprit(
      ErrorCode::kTimeout,
      fmt::format("#{} {} did not end within {}{:.3f} s: rank {} waits for {}", late.descriptor.sequence,
                  late.descriptor.ToString(), late.timeout_owner, SecondsOf(late.timeout), self_,
                  missing.empty() ? std::string("an earlier operation") : fmt::format("{}", fmt::join(missing, ", "))),
      culprit);
}

}  // namespace rondo
