#include "collectives/communicator/closing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/peer_errors.h"

namespace rondo {

void Closing::NoteRefusal(std::string_view call) {
  const MutexLock lock(mutex_);
  refused_call_ = call;
  refused_after_ = near_.queue.issued();
}

std::string Closing::RefusedAfter(Sequence last) const {
  const MutexLock lock(mutex_);
  return refused_after_ == last ? refused_call_ : "";
}

// ---- goodbyes ----

// The exchange ends when one check finds that all connected peers have sent their goodbyes, and that this rank has sent
// all of its own. If a peer connects or leaves between two checks, the later check finds it.
bool Closing::ExchangeGoodbyes() {
  const bool received_all = PeersWithoutGoodbye().empty();
  // A rank of an intranode group may have compared its operations with few others, and is connected to rank 0 only. So
  // rank 0 sends no goodbye before it has compared the last operations of all ranks.
  if (near_.names.self() == 0 && near_.current.runner().has_segment()) {
    if (auto waits = FindPeerInLaterOperation()) {
      near_.failure.Begin(*std::move(waits));
      return true;
    }
    if (!received_all) return false;
    if (FindMismatchedGoodbye()) return true;
  }
  return !SendGoodbyes() && received_all;
}

ControlMessage Closing::OwnGoodbye() {
  Goodbye goodbye;
  goodbye.last = near_.queue.LastCompleted();
  goodbye.refused = RefusedAfter(goodbye.last.sequence);
  return {ControlKind::kGoodbye, Encode(goodbye)};
}

bool Closing::SendGoodbyes() {
  const ControlMessage message = OwnGoodbye();
  return near_.peers.SendOnce(&Peer::goodbye_sent, near_.endpoint->ControlPeers(),
                              [&](Rank peer) { return near_.endpoint->SendControl(peer, message); });
}

std::optional<Error> Closing::FindMismatchedGoodbye() {
  const OperationDescriptor last = near_.queue.LastCompleted();
  return near_.peers.FirstError(
      [&](Rank peer, const PeerView& view) { return near_.suspicion.JudgeGoodbye(peer, view, last); });
}

// A peer in a later operation sends no goodbye, because it still needs this rank. So the two would wait for each other.
// But such a peer sends progress reports, by which this function finds it.
std::optional<Error> Closing::FindPeerInLaterOperation() {
  const OperationDescriptor last = near_.queue.LastCompleted();
  const std::string refused = RefusedAfter(last.sequence);
  return near_.peers.FirstError(
      [&](Rank peer, const PeerView& view) { return near_.suspicion.JudgeReportInClose(peer, view, last, refused); });
}

Status Closing::Leave(Duration patience) {
  state_.store(State::kLeaving);
  return CloseWithin(std::min(patience, options_.timeout));
}

Status Closing::CloseWithin(Duration time) {
  {
    const MutexLock lock(mutex_);
    if (status_) return *status_;
  }
  const TimePoint began = near_.clock.Now();
  TimePoint until = Later(began, time);
  const auto exchange = [&] { return near_.failure.GuardCall("closing", [&] { return ExchangeBy(began, until); }); };
  Status status = exchange();
  const auto is_late = [&] { return !status && status.error().code() == ErrorCode::kNotReady; };
  if (is_late() && OthersReportFirst()) {
    until = Later(until, near_.suspicion.graces().timeout_report_delay);
    status = exchange();
  }
  if (is_late() && !FailWhatIsLeft(time)) status = exchange();  // FailWhatIsLeft found no operation: try again
  // After a failure, waits until only launched graphs may still use buffers, but at most until close_drain after the
  // deadline.
  if (near_.failure.has_failed())
    near_.progress.AdvanceUntil(Later(until, near_.suspicion.graces().close_drain), 0,
                                [&] { return near_.failure.has_ended(); });
  if (is_late() && near_.failure.has_failed()) status = Fail(*near_.failure.cause());
  ShutDown(status);
  return status;
}

Status Closing::ExchangeBy(TimePoint began, TimePoint& until) {
  State open = State::kOpen;
  state_.compare_exchange_strong(open, State::kClosing);
  near_.messages.Close(
      Error(ErrorCode::kClosed, fmt::format("rank {} has closed this communicator", near_.names.self())),
      is_leaving() ? PostedReceives::kGivenUp : PostedReceives::kStay);
  near_.graphs.Check();
  Status status = WaitForIssued(until);
  if (status && !near_.progress.AdvanceUntil(until, 0, [&] { return near_.messages.pending() == 0; })) {
    status = Fail(ErrorCode::kNotReady, "{} sends and receives are still under way", near_.messages.pending());
  }
  if (status) {
    bool over = false;
    const bool exchanged = near_.progress.AdvanceUntil(
        until, 0, [&] { return over || near_.failure.has_ended(); },
        [&] {
          return over = !near_.failure.has_failed() &&
                        near_.failure.Guard("closing", [&] { return ExchangeGoodbyes(); }) &&
                        !near_.failure.has_failed();
        });
    // Operations that only send may have ended without a comparison with other ranks, so they are compared here.
    if (const auto mismatched = FindMismatchedGoodbye(); exchanged && mismatched && !near_.failure.has_failed()) {
      near_.failure.Begin(*mismatched);
      near_.progress.AdvanceUntil(until, 0, [&] { return near_.failure.has_ended(); });
    }
    if (near_.failure.has_failed()) {
      status = Fail(*near_.failure.cause());
    } else if (!exchanged && is_leaving()) {
      // Rank 0 of an intranode group may not have sent its goodbyes yet, so they are sent here.
      near_.progress.Enter();
      near_.failure.Guard("leaving", [&] { return SendGoodbyes(); });
      near_.progress.Leave();
    } else if (!exchanged) {
      status = Fail(ErrorCode::kTimeout, "rank {} waited {:.3f} s for others to close too; missing: rank {}",
                    near_.names.self(), std::chrono::duration<double>(until - began).count(),
                    fmt::join(PeersWithoutGoodbye(), ", "));
    }
  }
  return status;
}

Status Closing::WaitForIssued(TimePoint& until) {
  const Sequence last = near_.queue.issued();
  const bool ended = near_.progress.AdvanceUntil(
      until, last, [&] { return near_.queue.completed() >= last || near_.failure.has_ended(); });
  if (near_.queue.completed() >= last) return {};
  if (!ended) return Fail(ErrorCode::kNotReady, "operation #{} is still under way", last);
  return Fail(*near_.failure.cause());
}

// If this rank left now without a goodbye, other ranks would report this rank as dead, instead of the rank for which
// all are waiting. So this rank fails the communicator first.
bool Closing::FailWhatIsLeft(Duration time) {
  near_.progress.Enter();
  const Sequence first = near_.queue.completed() + 1;
  const bool is_collective = first <= near_.queue.issued();
  const bool is_left = is_collective || near_.messages.pending() > 0;
  if (is_left && !near_.failure.has_failed()) {
    const TimePoint now = near_.progress.Look();
    Error error = Error::MemoryRanOut();
    IfMemoryAllows([&] {
      if (!is_collective) {
        error = near_.messages.LateFor("Close's ", time);
        return;
      }
      LateOperation late = near_.detector.LateAt(near_.queue.At(first));
      late.timeout = time;
      late.timeout_owner = "Close's ";
      error = near_.suspicion.TimeoutOf(late, near_.detector.BlockedPeers(), now);
    });
    near_.failure.Begin(std::move(error));
  }
  near_.progress.Leave();
  return is_left || near_.failure.has_failed();
}

bool Closing::OthersReportFirst() {
  near_.progress.Enter();
  const bool others = !near_.failure.has_failed() && near_.failure.Guard("closing", [&] {
    return (near_.current.is_joining() && near_.names.self() != 0) ||
           near_.suspicion.OthersReportFirst(near_.detector.BlockedPeers(), near_.progress.Look());
  });
  near_.progress.Leave();
  return others;
}

void Closing::ShutDown(const Status& status) {
  near_.progress.Enter();
  IfMemoryAllows([&] {
    if (const std::size_t left = near_.messages.held(); left > 0)
      Log(options_.logger, LogLevel::kWarning, "{} closed with {} messages that it never received",
          near_.names.NameOf(near_.names.self()), left);
  });
  std::optional<ControlMessage> goodbye;
  if (!near_.failure.has_failed())
    IfMemoryAllows([&] {
      goodbye = OwnGoodbye();
      near_.endpoint->LeaveBehind(*goodbye);
    });
  // if memory runs out here, the destructor ends the endpoint at once
  IfMemoryAllows([&] { near_.endpoint->ShutDown(); });
  near_.progress.Leave();
  if (goodbye) IfMemoryAllows([&] { KeepGoodbye(*goodbye, status); });
  const MutexLock lock(mutex_);
  status_ = status;
}

void Closing::KeepGoodbye(const ControlMessage& goodbye, const Status& status) {
  if (options_.kept_goodbyes == nullptr || !near_.peers.HasUnreached()) return;
  // After a successful Close, rank 0 of an intranode group has received the goodbyes of all ranks, so no rank needs a
  // kept goodbye.
  if (near_.current.runner().has_segment() && status && !is_leaving()) return;
  if (const Status kept = options_.kept_goodbyes->Keep(options_.id, near_.names.self(), goodbye.body); !kept)
    Log(options_.logger, LogLevel::kInfo,
        "{} could not store its goodbye for ranks that were never connected to it: {}",
        near_.names.NameOf(near_.names.self()), kept.error().ToString());
}

}  // namespace rondo
