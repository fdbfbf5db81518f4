// What goes wrong: looking for trouble, failing once and telling everybody.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "collectives/blame.h"
#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// A lane may break an instant before the control connection tells why (dead, aborted, mismatch): the reason is waited
// for this long before the broken lane itself becomes the error.
constexpr Duration kReasonGrace = std::chrono::milliseconds(300);
// Both ends of a lane that breaks see it, and each has only the other to name. The higher rank, which connected it and
// knows more where it could not be made, speaks first, so that all ranks hear one account.
constexpr Duration kHigherRankSpeaksFirst = std::chrono::milliseconds(200);
constexpr Duration kRankZeroSpeaksFirst = std::chrono::milliseconds(200);
// Who waits says so every kLookAroundEvery, so who has been mute for longer than this does not wait for anybody.
constexpr Duration kSilence = 3 * kLookAroundEvery;

}  // namespace

// ---- looking ----

bool CommunicatorCore::LookForTrouble(TimePoint now, Sequence waited) {
  return OrPoison("looking for trouble", [&] { return LookAtAll(now, waited); });
}

bool CommunicatorCore::LookAtAll(TimePoint now, Sequence waited) {
  if (poisoned_.load(std::memory_order_acquire)) return false;
  if (LookAtGraphs()) return true;
  if (words_.load(std::memory_order_acquire) != words_seen_ && LookAtPeers()) return true;

  if (messages_in_use_.load(std::memory_order_relaxed) && LookAtMessages()) return true;
  for (const auto& mover : movers_) {
    if (!mover->failure()) continue;
    Poison(WithCulprit(ErrorCode::kAborted, fmt::format("rank {}: {}", rank(), *mover->failure()), rank()));
    return true;
  }

  auto trouble = runner_->FindTrouble();
  if (!trouble) {
    if (const auto other = messages_->FindTrouble()) trouble = {other->peer, other->error};
  }
  if (!trouble && IsSettlingBoard() && board_->failure() != nullptr)
    trouble = {board_->failure()->culprit(), board_->failure()};
  if (!trouble && has_early_loss_.load(std::memory_order_acquire)) trouble = {early_loss_->culprit(), &*early_loss_};
  if (trouble) {
    if (LookAtParent()) return true;
    // Each has its own time: a rank that takes its lanes away because it was told of the first is about to say so.
    if (!trouble_since_ || trouble_with_ != trouble->peer) {
      trouble_since_ = now;
      trouble_with_ = trouble->peer;
    }
    const bool other_speaks_first = trouble->peer > rank();
    if (now - *trouble_since_ >= kReasonGrace + (other_speaks_first ? kHigherRankSpeaksFirst : Duration::zero())) {
      const Error error =
          trouble->error != nullptr
              ? *trouble->error
              : Error(ErrorCode::kConnectionReset,
                      fmt::format("rank {} ended its lane to rank {} while bytes are due", trouble->peer, rank()));
      // What the system refuses is refused to this rank, and a lane knows where only one end can be at fault.
      Poison(error.With([&](ErrorDetails& d) {
        const bool here = d.code == ErrorCode::kResource || d.culprit == rank();
        d.culprit = here ? rank() : trouble->peer;
        if (here) d.host = options_.peers[static_cast<std::size_t>(rank())].host;
      }));
      return true;
    }
  }
  if (!still_since_) still_since_ = looked_around_at_ = now;
  if (now - looked_around_at_ >= kLookAroundEvery) {
    if (auto stranger = runner_->FindStranger()) {
      Poison(*std::move(stranger));
      return true;
    }
    if (LookAtParent()) return true;
    SayWhereWeStand();
    looked_around_at_ = now;
  }
  return LookAtClock(now, waited);
}

// Until there is a board the others know of rank 0 only. That one knows who is missing, and may say so first.
TimePoint CommunicatorCore::DeadlineOf(Sequence sequence) {
  return Later(PendingOf(sequence).deadline, IsSettlingBoard() && rank() != 0 ? kRankZeroSpeaksFirst
                                             : sequence == given_time_        ? kWitnessesSpeakFirst
                                                                              : Duration::zero());
}

void CommunicatorCore::PutOffDeadlines(Duration pause) {
  messages_->PutOffDeadlines(pause);
  const Sequence issued = issued_.load(std::memory_order_acquire);
  for (Sequence sequence = completed_.load(std::memory_order_relaxed) + 1; sequence <= issued; ++sequence)
    PendingOf(sequence).deadline = Later(PendingOf(sequence).deadline, pause);
}

bool CommunicatorCore::LookAtDeadlines(TimePoint now, Sequence waited) {
  return OrPoison("looking at deadlines", [&] { return LookAtClock(now, waited); });
}

bool CommunicatorCore::LookAtClock(TimePoint now, Sequence waited) {
  if (now >= messages_->next_deadline()) {
    auto late = messages_->Expire(now);
    const bool settled = SettleMessages();
    const bool expired = late.has_value();
    if (expired) Poison(*std::move(late));
    if (expired || settled) return true;
  }
  const Sequence issued = issued_.load(std::memory_order_acquire);
  const Sequence first = completed_.load(std::memory_order_relaxed) + 1;
  const auto expired = [&](Sequence sequence) {
    return sequence >= first && sequence <= issued && now >= DeadlineOf(sequence);
  };
  std::optional<Sequence> late;
  if (expired(first)) {
    late = first;
  } else if (expired(waited)) {
    late = waited;
  } else if (now >= next_deadline_look_) {
    // Operations further back may have shorter timeouts than those before them.
    next_deadline_look_ = now + kLookAroundEvery;
    for (Sequence sequence = first; sequence <= issued && !late; ++sequence)
      if (expired(sequence)) late = sequence;
  }
  if (!late) return false;
  if (*late == first && given_time_ != first && WaitsForWitnesses(now)) {
    given_time_ = first;
    return false;
  }
  Poison(Expired(PendingOf(*late), now));
  return true;
}

Error CommunicatorCore::Disagreement(Rank peer, const OperationDescriptor& own,
                                     const OperationDescriptor& theirs) const {
  return WithCulprit(ErrorCode::kMismatch,
                     fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}",
                                 rank(), own.sequence, own.ToString(), peer, theirs.sequence, theirs.ToString()),
                     peer);
}

bool CommunicatorCore::LookAtPeers() {
  // An operation that waits for the board does not run yet, but it waits for everybody.
  const bool waits_for_board = IsSettlingBoard();
  if (!runner_->running() && !waits_for_board) return false;
  words_seen_ = words_.load(std::memory_order_acquire);
  const OperationDescriptor& own = waits_for_board
                                       ? PendingOf(completed_.load(std::memory_order_relaxed) + 1).request.descriptor
                                       : RunningOperation();
  // The board's turns need everybody, sooner or later; and who is not rank 0 hears of this only through rank 0.
  const bool needs_all = waits_for_board || own.algorithm == Algorithm::kBoard;
  for (Rank peer = 0; peer < world_size(); ++peer) {
    std::optional<Goodbye> goodbye;
    std::optional<Standpoint> standpoint;
    {
      const std::lock_guard lock(mutex_);
      goodbye = goodbyes_[static_cast<std::size_t>(peer)];
      standpoint = standpoints_[static_cast<std::size_t>(peer)];
    }
    for (const OperationDescriptor* theirs :
         {goodbye ? &goodbye->last : nullptr, standpoint ? &standpoint->current : nullptr}) {
      // Before it is known whether there is a board, the algorithm may be another one.
      if (waits_for_board || theirs == nullptr || theirs->sequence != own.sequence || *theirs == own) continue;
      Poison(Disagreement(peer, own, *theirs));
      return true;
    }
    if (goodbye && goodbye->last.sequence < own.sequence && (needs_all || runner_->WaitsFor(peer))) {
      Poison(ClosedEarly(peer, goodbye->last, rank(), own, goodbye->refused));
      return true;
    }
  }
  return false;
}

void CommunicatorCore::SayWhereWeStand() {
  if (!runner_->running()) return;
  const ControlMessage message{ControlKind::kHeartbeat, Encode(Standpoint{RunningOperation()})};
  for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, message);
}

Duration CommunicatorCore::SilenceOf(Rank peer, TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return now - std::min(now, std::max(heard_[static_cast<std::size_t>(peer)], still_since_.value_or(now)));
}

std::string CommunicatorCore::DescribeSilence(Rank peer, TimePoint now) const {
  // One that is still being connected to has had no way to be heard; DescribePeer says how far that is.
  if (!runner_->has_board() && !endpoint_->IsConnected(peer)) return "";
  const Duration silence = SilenceOf(peer, now);
  const double seconds = std::chrono::duration<double>(silence).count();
  return silence >= kSilence ? fmt::format("; connected and silent for {:.3f} s", seconds)
                             : fmt::format("; connected and heard {:.3f} s ago", seconds);
}

bool CommunicatorCore::WaitsForWitnesses(TimePoint now) const {
  const std::vector<Standing> waiting = runner_->Waiting();
  const std::lock_guard lock(mutex_);
  const auto speaks = [&](const Standing& standing) {
    return now < Later(heard_[static_cast<std::size_t>(standing.peer)], kSilence);
  };
  return world_size() > 2 && !waiting.empty() && std::all_of(waiting.begin(), waiting.end(), speaks);
}

Error CommunicatorCore::Expired(const Pending& operation, TimePoint now) const {
  return LateFor("", operation.request.timeout, operation.request.descriptor, now);
}

Error CommunicatorCore::LateFor(std::string_view whose, Duration time, const OperationDescriptor& d,
                                TimePoint now) const {
  std::vector<std::string> missing;
  Rank culprit = kNoRank;
  const double seconds = std::chrono::duration<double>(time).count();
  Duration longest_silence = Duration::zero();
  for (const Standing& standing : runner_->Waiting()) {
    const Duration silence = SilenceOf(standing.peer, now);
    if (culprit == kNoRank || silence > longest_silence + kSilence) {
      culprit = standing.peer;
      longest_silence = silence;
    }
    const std::string silent = DescribeSilence(standing.peer, now);
    const std::string rail = options_.rails > 1 ? fmt::format(" on rail {}", standing.rail) : "";
    // With the rate, so that a slow link can be told from a dead one.
    missing.push_back(standing.started ? fmt::format("rank {} ({} of {} bytes of step {} {}{}, {:.3g} MB/s{})",
                                                     standing.peer, standing.bytes_done, standing.bytes_due,
                                                     standing.step, standing.sending ? "sent" : "arrived", rail,
                                                     static_cast<double>(standing.bytes_done) / seconds / 1e6, silent)
                                       : fmt::format("rank {} (nothing of this operation {}{}{}; {})", standing.peer,
                                                     standing.sending ? "could be sent" : "arrived", rail, silent,
                                                     endpoint_->DescribePeer(standing.peer)));
  }
  if (IsSettlingBoard()) {
    for (const Rank peer : board_->Missing()) {
      if (culprit == kNoRank) culprit = peer;
      missing.push_back(fmt::format("rank {} (to share memory with{}; {})", peer, DescribeSilence(peer, now),
                                    endpoint_->DescribePeer(peer)));
    }
  }
  if (staging_.running() && missing.empty()) {
    culprit = rank();
    missing.push_back(staging_.has_arrived()
                          ? fmt::format("copies of {}", device_queue_->name())
                          : fmt::format("what was on its stream of {} before", device_queue_->name()));
  }
  return WithCulprit(
      ErrorCode::kTimeout,
      fmt::format("#{} {} did not end within {}{:.3f} s: rank {} waits for {}", d.sequence, d.ToString(), whose,
                  seconds, rank(),
                  missing.empty() ? std::string("an earlier operation") : fmt::format("{}", fmt::join(missing, ", "))),
      culprit);
}

// ---- failure ----

Error CommunicatorCore::WithIdentity(Error error) const {
  if (error.code() == ErrorCode::kOutOfMemory && error.culprit() == kNoRank)  // whoever it is told to, it was here
    error = error.With([&](ErrorDetails& d) { d.culprit = rank(); });
  const Rank culprit = error.culprit();
  if (culprit < 0 || culprit >= world_size() || !error.details().host.empty()) return error;
  return error.With([&](ErrorDetails& d) { d.host = options_.peers[static_cast<std::size_t>(culprit)].host; });
}

Error CommunicatorCore::FramedError(const Error& error) const {
  if (options_.frame == nullptr || error.details().frame != nullptr) return error;
  const RankFrame& frame = *options_.frame;
  Error framed = error;
  IfMemoryAllows([&] {
    framed = error.With([&](ErrorDetails& d) {
      d.message = frame.Reword(d.message);
      d.collective = frame.Reword(d.collective);
      // A parent's words name its own ranks, and did so before they came here.
      if (d.message != kParentFailed) d.first_cause = frame.Reword(d.first_cause);
      d.frame = options_.frame;
    });
  });
  return framed;
}

// Where there is no memory for the words of it, it fails all the same: peers then learn it by their lanes, which end.
void CommunicatorCore::Poison(Error error, std::optional<Rank> origin) noexcept {
  IfMemoryAllows([&] { error = WithIdentity(error); });
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    failure_origin_ = origin.value_or(rank());
    failed_at_ = clock_->Now();
    // Before anybody hears of it, and whether or not somebody drives.
    if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) queue->EndGraphs();
    poisoned_.store(true);  // before device_queue_seen_ is looked at
  }
  if (!IfMemoryAllows([&] { TellPeers(error, origin.value_or(rank())); }))
    IfMemoryAllows([&] { TellPeers(Error::MemoryRanOut(), rank()); });
  told_.store(true);
  {
    const std::lock_guard lock(endpoint_mutex_);
    if (endpoint_ == nullptr) return;
    endpoint_->Wake();
  }
  gate_.Announce();
}

void CommunicatorCore::TellPeers(const Error& error, Rank origin) {
  const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(error, origin))};
  const std::lock_guard lock(endpoint_mutex_);
  if (endpoint_ == nullptr) return;
  for (const Rank peer : endpoint_->ControlPeers()) {
    {
      const std::lock_guard known(mutex_);
      if (is_told_[static_cast<std::size_t>(peer)]) continue;
    }
    if (!endpoint_->SendControl(peer, notice)) continue;
    const std::lock_guard known(mutex_);
    is_told_[static_cast<std::size_t>(peer)] = true;
  }
}

bool CommunicatorCore::SomebodyIsUntold() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < is_told_.size(); ++peer)
    if (static_cast<Rank>(peer) != rank() && !is_told_[peer] && !has_failed_[peer] && !lost_[peer] && !goodbyes_[peer])
      return true;
  return false;
}

void CommunicatorCore::OnControl(Rank from, ControlMessage message) {
  {
    const std::lock_guard lock(mutex_);
    heard_[static_cast<std::size_t>(from)] = clock_->Now();
  }
  switch (message.kind) {
    case ControlKind::kHeartbeat: {
      // Whoever speaks to a communicator that has failed already, a late comer say, is told why.
      if (const auto failed = failure()) {
        const std::lock_guard lock(endpoint_mutex_);
        if (endpoint_ == nullptr) return;
        const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(*failed, FailureOrigin()))};
        if (!endpoint_->SendControl(from, notice)) return;
        const std::lock_guard known(mutex_);
        is_told_[static_cast<std::size_t>(from)] = true;
        return;
      }
      if (IsLaneCall(message.body)) return OnLaneCall(from);
      const auto standpoint = DecodeStandpoint(message.body);
      if (!standpoint) return;  // a greeting
      {
        const std::lock_guard lock(mutex_);
        standpoints_[static_cast<std::size_t>(from)] = standpoint;
      }
      words_.fetch_add(1, std::memory_order_release);
      return;
    }
    case ControlKind::kGoodbye: {
      const auto goodbye = DecodeGoodbye(message.body);
      if (!goodbye) break;
      {
        const std::lock_guard lock(mutex_);
        goodbyes_[static_cast<std::size_t>(from)] = goodbye;
      }
      words_.fetch_add(1, std::memory_order_release);
      {
        const std::lock_guard lock(endpoint_mutex_);
        if (endpoint_ == nullptr) return;
        endpoint_->Wake();
      }
      gate_.Announce();
      return;
    }
    case ControlKind::kAbort: {
      const auto notice = DecodeAbortNotice(message.body);
      if (!notice) break;
      {
        const std::lock_guard lock(mutex_);
        has_failed_[static_cast<std::size_t>(from)] = true;
        failure_was_told_ = failure_was_told_ || !failure_;
      }
      // Repeated as it is: whom it convicts must hear who found it, not who came by.
      Poison(ErrorOf(*notice, rank()), notice->origin);
      return;
    }
  }
  Poison(WithCulprit(ErrorCode::kProtocol, fmt::format("rank {} sent an unreadable control message", from), from));
}

void CommunicatorCore::OnPeerLost(Rank peer, Error error) {
  if (FollowParent()) return;                  // it is not lost: it gave its group up
  if (error.code() == ErrorCode::kPeerLost) {  // not one that merely cannot be reached
    const std::lock_guard lock(mutex_);
    lost_[static_cast<std::size_t>(peer)] = !has_failed_[static_cast<std::size_t>(peer)];
  }
  // What the system refuses is refused to this rank.
  const bool here = error.code() == ErrorCode::kResource;
  error = error.With([&](ErrorDetails& d) {
    d.culprit = here ? rank() : peer;
    if (here) d.host = options_.peers[static_cast<std::size_t>(rank())].host;
  });
  if (here || !IsNewGroup()) return Poison(std::move(error));
  {
    const std::lock_guard lock(mutex_);
    if (early_loss_) return;
    early_loss_ = std::move(error);
    has_early_loss_.store(true, std::memory_order_release);
  }
  {
    const std::lock_guard lock(endpoint_mutex_);
    if (endpoint_ == nullptr) return;
    endpoint_->Wake();
  }
  gate_.Announce();
}

void CommunicatorCore::OnTransportFailed(const Error& error) { Poison(error); }

std::optional<Error> CommunicatorCore::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Rank CommunicatorCore::FailureOrigin() const {
  const std::lock_guard lock(mutex_);
  return failure_origin_;
}

// What this rank knows of the operation that `error` has ended here; null: none was running.
Error CommunicatorCore::WithPlace(const Error& error, const OperationDescriptor* operation,
                                  const std::vector<Standing>& waiting) const {
  return error.With([&](ErrorDetails& d) {
    d.rank = rank();
    if (operation == nullptr) return;
    if (d.collective.empty()) d.collective = operation->ToString();
    if (!d.sequence) d.sequence = operation->sequence;
    if (d.sequence != operation->sequence) return;  // of another operation, which has no step here
    auto at = std::find_if(waiting.begin(), waiting.end(), [&](const Standing& s) { return s.peer == d.culprit; });
    if (at == waiting.end()) at = waiting.begin();
    if (at == waiting.end() || d.step) return;
    d.step = at->step;
    d.bytes_done = at->bytes_done;
    d.bytes_due = at->bytes_due;
  });
}

void CommunicatorCore::EndAfterFailure() noexcept {
  is_ending_.store(true);
  // Again, for an operation that began as the failure came has connected others, who wait for this rank from now on.
  IfMemoryAllows([&] { TellPeers(*failure(), FailureOrigin()); });
  // The order matters: first nobody can reach the buffers, then the waiters learn that they are theirs again.
  endpoint_->Revoke();
  std::vector<Standing> waiting;
  IfMemoryAllows([&] { waiting = runner_->Waiting(); });
  const bool running = IsRunning();
  const OperationDescriptor operation = RunningOperation();  // of the board it is forgotten when that is drained
  runner_->Drain();
  staging_.Drain();
  std::optional<Error> cause;
  {
    const std::lock_guard lock(mutex_);
    IfMemoryAllows([&] { failure_ = WithPlace(*failure_, running ? &operation : nullptr, waiting); });
    cause = failure_;
  }
  RecordFailure(*cause, running);
  EndMessages(*cause);
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) {
    queue->EndGraphs();  // which Poison cannot, where the queue was just being made
    queue->LeaveForGood();
  }
  ended_.store(true);
  gate_.Announce();
  IfMemoryAllows([&] { WriteRecordsOfFailure(); });  // whoever waits has been told already
}

}  // namespace rondo
