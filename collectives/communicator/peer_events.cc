#include "collectives/communicator/peer_events.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/point_to_point/message_frame.h"

namespace rondo {

void PeerEvents::OnControl(Rank from, ControlMessage message) {
  peers_.OnReceived(from, clock_.Now());
  switch (message.kind) {
    case ControlKind::kHeartbeat: return OnHeartbeat(from, message.body);
    case ControlKind::kGoodbye: {
      auto goodbye = DecodeGoodbye(message.body);
      if (!goodbye) break;
      return OnGoodbye(from, *std::move(goodbye));
    }
    case ControlKind::kAbort: {
      const auto notice = DecodeAbortNotice(message.body);
      if (!notice) break;
      peers_.OnFailureNotice(from);
      // The notice is passed on unchanged: the culprit must learn which rank found the cause, not which rank passed it
      // on.
      failure_.Begin(ErrorOf(*notice, names_.self()), notice->origin, Failure::Source::kNotice);
      return;
    }
  }
  failure_.Begin(
      WithCulprit(ErrorCode::kProtocol, fmt::format("rank {} sent an unreadable control message", from), from));
}

void PeerEvents::OnHeartbeat(Rank from, const std::string& body) {
  // The communicator has failed already, so the peer, which may be late, gets the failure notice as an answer.
  if (failure_.Answer(from)) return;
  if (IsLaneCall(body)) return submissions_.OnPeerCall(from);
  const auto report = DecodeProgressReport(body);
  if (!report) return;  // no report: the peer has only opened a lane
  peers_.OnReport(from, *report);
  count_.fetch_add(1, std::memory_order_release);
}

void PeerEvents::OnGoodbye(Rank from, Goodbye goodbye) {
  peers_.OnGoodbye(from, std::move(goodbye));
  count_.fetch_add(1, std::memory_order_release);
  listener_.WakeOwner();
}

void PeerEvents::OnPeerEndedBefore(Rank peer, Error error) {
  if (kept_ == nullptr) return OnPeerLost(peer, std::move(error));
  if (listener_.AdoptParentFailure()) return;
  peers_.OnEndedBefore(peer, std::move(error));
  listener_.WakeOwner();
}

void PeerEvents::OnPeerLost(Rank peer, Error error) {
  if (listener_.AdoptParentFailure()) return;                     // the peer is not lost: it gave up its group
  if (error.code() == ErrorCode::kPeerLost) peers_.OnLost(peer);  // a peer that merely cannot be reached is not lost
  error = Suspicion::AttributeLoss(error, peer, names_.self());
  if (error.culprit() == names_.self() || !listener_.IsNewGroup()) return failure_.Begin(std::move(error));
  if (peers_.KeepEarlyLoss(std::move(error))) listener_.WakeOwner();
}

bool PeerEvents::AskForKeptGoodbyes() {
  bool asked = false;
  std::optional<Error> no_answer;
  for (auto& [peer, error] : peers_.TakeEndedBefore()) {
    asked = true;
    // If one question gets no answer, no further peer is asked about, because each question may take kKeptGoodbyeLimit.
    Result<std::optional<std::string>> found = no_answer ? Fail(*no_answer) : kept_->Find(communicator_, peer);
    if (!found) no_answer = found.error();
    if (auto goodbye = found && *found ? DecodeGoodbye(**found) : std::nullopt) {
      OnGoodbye(peer, *std::move(goodbye));
      continue;
    }
    const std::string place = kept_->Describe();
    const std::string more =
        found ? fmt::format("It has left no goodbye in {}", place)
              : fmt::format("Whether it has left a goodbye in {} is not known: {}", place, found.error().message());
    OnPeerLost(peer, error.With([&](ErrorDetails& d) { d.message += ". " + more; }));
  }
  return asked;
}

}  // namespace rondo
