#include "collectives/point_to_point/message_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace rondo {

MessageEngine::MessageEngine(const MessageEngineOptions& options, Endpoint& endpoint)
    : options_(options),
      endpoint_(endpoint),
      completions_(options.observer),
      matching_(options.world_size),
      lanes_(static_cast<std::size_t>(options.world_size)),
      departed_(static_cast<std::size_t>(options.world_size)) {}

Result<MessageLane*> MessageEngine::LaneTo(Rank peer) {
  std::unique_ptr<MessageLane>& place = lanes_[static_cast<std::size_t>(peer)];
  if (place == nullptr) {
    RONDO_ASSIGN(Lane * lane, endpoint_.Open(peer, kMessageLaneIndex));
    place = std::make_unique<MessageLane>(options_.limits, *lane, options_.rank, matching_, completions_);
    open_.push_back(place.get());
    endpoint_.SendControl(peer, {ControlKind::kHeartbeat, LaneCall()});
    if (ending_) place->BeginEnd();
    if (departed_[static_cast<std::size_t>(peer)]) place->PeerDeparts();
  }
  return place.get();
}

void MessageEngine::Start(MessageOperation& operation) {
  active_.PushBack(operation);
  next_deadline_ = std::min(next_deadline_, operation.deadline);
  operation.sends ? StartSend(operation) : StartReceive(operation);
}

void MessageEngine::StartSend(MessageOperation& send) {
  if (send.peer == options_.rank) return SendToSelf(send);
  const auto lane = LaneTo(send.peer);
  if (!lane) return completions_.Fail(send, lane.error());
  if ((*lane)->abandoned()) return completions_.Fail(send, Left(send.peer, send));
  (*lane)->Send(send);
}

void MessageEngine::StartReceive(MessageOperation& receive) {
  receive.order = ++receives_;
  if (receive.peer != kAnyRank && receive.peer != options_.rank) {
    if (const auto lane = LaneTo(receive.peer); !lane) return completions_.Fail(receive, lane.error());
  }
  Match(receive);
  if (ended_lanes_ > 0 || ending_) FailHopeless();
}

void MessageEngine::SendToSelf(MessageOperation& send) {
  HeldMessage* held = nullptr;
  MessageOperation* const receive = matching_.TakeReceive(options_.rank, send.tag);
  const std::uint64_t credit = CreditOf(send.bytes);
  const bool aside = receive == nullptr && send.bytes <= options_.limits.eager_message_bytes &&
                     own_held_bytes_ + credit <= options_.limits.eager_credit_bytes;
  if (aside) held = matching_.Hold(options_.rank, send.bytes);
  if (aside && held != nullptr) {
    std::copy_n(send.buffer, send.bytes, held->data.get());
    own_held_bytes_ += credit;
  } else {
    held = matching_.Hold(options_.rank, 0);
    held->own_send = &send;
    send.stage = MessageStage::kAnnounced;
  }
  held->tag = send.tag;
  held->type = send.type;
  held->bytes = send.bytes;
  if (held->own_send == nullptr) completions_.Succeed(send);
  if (receive != nullptr) TakeOwn(*receive, *held);
}

void MessageEngine::TakeOwn(MessageOperation& receive, HeldMessage& held) {
  auto misfit = Misfit(receive, options_.rank, held.tag, held.type, held.bytes);
  if (!misfit) {
    receive.message = {options_.rank, held.tag, held.type, held.bytes / SizeOf(held.type)};
    const std::byte* const from = held.own_send != nullptr ? held.own_send->buffer : held.data.get();
    std::copy_n(from, held.bytes, receive.buffer);
  }
  if (held.own_send == nullptr) {
    own_held_bytes_ -= CreditOf(held.bytes);
  } else if (misfit) {
    completions_.Fail(*held.own_send, *misfit);
  } else {
    completions_.Succeed(*held.own_send);
  }
  matching_.Forget(held);
  misfit ? completions_.Fail(receive, *std::move(misfit)) : completions_.Succeed(receive);
}

void MessageEngine::Match(MessageOperation& receive) {
  HeldMessage* const held = matching_.Find(receive);
  if (held == nullptr) return matching_.Post(receive);
  if (held->source == options_.rank) return TakeOwn(receive, *held);
  lanes_[static_cast<std::size_t>(held->source)]->Take(receive, *held);
}

void MessageEngine::AcceptLane(Rank peer) {
  // If no lane can be made, the peer's sends wait and report why. No operation of this rank has failed.
  (void)LaneTo(peer);
}

void MessageEngine::Depart(Rank peer) {
  departed_[static_cast<std::size_t>(peer)] = true;
  if (const auto& lane = lanes_[static_cast<std::size_t>(peer)]) lane->PeerDeparts();
}

Status MessageEngine::EndDeparted() {
  if (std::none_of(departed_.begin(), departed_.end(), [](bool departed) { return departed; })) return {};
  for (MessageLane* lane : open_) {
    const LaneState state = lane->lane().state();
    const bool over = state == LaneState::kEnded || state == LaneState::kFailed;
    if (!over || lane->abandoned() || !departed_[static_cast<std::size_t>(lane->peer())]) continue;
    // A lane that failed during a send may still hold messages that had arrived.
    RONDO_ASSIGN(const bool moved, lane->Poll());
    if (moved) continue;
    lane->Abandon();
    MessageOperation* next = active_.front();
    while (next != nullptr) {
      MessageOperation& operation = *next;
      next = ActiveList::After(operation);
      const bool matched = !operation.sends && operation.stage != MessageStage::kPosted;
      if ((matched ? operation.message.source : operation.peer) == lane->peer())
        completions_.Fail(operation, Left(lane->peer(), operation));
    }
  }
  FailHopeless();
  return {};
}

void MessageEngine::BeginEnd(PostedReceives receives) {
  if (std::exchange(ending_, true)) return;
  for (MessageLane* lane : open_) lane->BeginEnd();
  matching_.ForEachHeld([&](HeldMessage& held) {
    if (held.own_send == nullptr) return;
    completions_.Fail(*held.own_send,
                      Error(ErrorCode::kClosed, fmt::format("rank {} closed without posting a receive for the {}",
                                                            options_.rank, Describe(*held.own_send))));
    matching_.Forget(held);
  });
  if (receives == PostedReceives::kGivenUp) GiveUpReceives();
  FailHopeless();
}

void MessageEngine::GiveUpReceives() {
  MessageOperation* receive = matching_.posted().front();
  while (receive != nullptr) {
    MessageOperation& one = *receive;
    receive = StageList::After(one);
    completions_.Fail(one, Left(options_.rank, one));
  }
}

Result<bool> MessageEngine::Poll() {
  bool moved = false;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    MessageLane& lane = *open_[(first_ + i) % open_.size()];
    RONDO_ASSIGN(const bool lane_moved, lane.Poll());
    moved |= lane_moved;
    ended += lane.peer_ended();
  }
  ++first_;
  while (MessageOperation* const receive = matching_.TakePostedAgain()) {
    Match(*receive);
    moved = true;
  }
  if (ended != ended_lanes_) {
    ended_lanes_ = ended;
    FailHopeless();
    moved = true;
  }
  return moved;
}

bool MessageEngine::Glance() {
  constexpr std::size_t kGlances = 4;
  if (open_.empty()) return false;
  for (std::size_t round = 0; round < kGlances / open_.size(); ++round)
    for (MessageLane* lane : open_)
      if (lane->HasNews()) return true;
  return false;
}

bool MessageEngine::HasOutput() const {
  return std::any_of(open_.begin(), open_.end(), [](const MessageLane* lane) { return lane->HasOutput(); });
}

// ---- failures and timeouts ----

bool MessageEngine::HasLeft(Rank peer) const {
  if (peer == options_.rank) return ending_;
  const auto& lane = lanes_[static_cast<std::size_t>(peer)];
  if (lane == nullptr) return departed_[static_cast<std::size_t>(peer)];
  return lane->peer_ended() || lane->abandoned();
}

Error MessageEngine::Left(Rank peer, const MessageOperation& operation) const {
  const std::string who = peer == kAnyRank ? "every other rank" : fmt::format("rank {}", peer);
  return Error(ErrorCode::kClosed, fmt::format("{} closed before the {} was complete", who, Describe(operation)))
      .With([&](ErrorDetails& d) { d.culprit = peer == kAnyRank ? kNoRank : peer; });
}

void MessageEngine::FailHopeless() {
  bool others_left = true;
  for (Rank peer = 0; peer < options_.world_size; ++peer)
    if (peer != options_.rank || options_.world_size == 1) others_left = others_left && HasLeft(peer);
  MessageOperation* receive = matching_.posted().front();
  while (receive != nullptr) {
    MessageOperation& one = *receive;
    receive = StageList::After(one);
    if (one.peer == kAnyRank ? !others_left : !HasLeft(one.peer)) continue;
    completions_.Fail(one, Left(one.peer, one));
  }
}

std::optional<MessageEngine::FailedLane> MessageEngine::FindFailedLane() const {
  for (const MessageLane* lane : open_) {
    const LaneState state = lane->lane().state();
    if (lane->abandoned() || departed_[static_cast<std::size_t>(lane->peer())]) continue;
    if (state != LaneState::kFailed && state != LaneState::kEnded && !lane->lane().end_arrived()) continue;
    const bool receives = lane->HasMatched() || matching_.posted().Find([&](const MessageOperation& one) {
      return one.peer == lane->peer();
    }) != nullptr;
    if (lane->HasSends() || receives) return FailedLane{lane->peer(), lane->lane().failure()};
  }
  return std::nullopt;
}

void MessageEngine::ExtendDeadlines(TimePoint begin, TimePoint end) {
  next_deadline_ = TimePoint::max();
  for (MessageOperation* one = active_.front(); one != nullptr; one = ActiveList::After(*one)) {
    if (one->deadline != TimePoint::max())
      one->deadline = Later(one->deadline, end - std::clamp(one->deadline - one->timeout, begin, end));
    next_deadline_ = std::min(next_deadline_, one->deadline);
  }
}

std::optional<Error> MessageEngine::Expire(TimePoint now) {
  if (now < next_deadline_) return std::nullopt;
  next_deadline_ = TimePoint::max();
  MessageOperation* next = active_.front();
  while (next != nullptr) {
    MessageOperation& operation = *next;
    next = ActiveList::After(operation);
    if (now < operation.deadline) {
      next_deadline_ = std::min(next_deadline_, operation.deadline);
      continue;
    }
    Error late = Late("", operation.timeout, operation);
    switch (operation.stage) {
      case MessageStage::kQueued:
      case MessageStage::kAnnounced:
        if (operation.peer != options_.rank) {
          lanes_[static_cast<std::size_t>(operation.peer)]->Withdraw(operation);
        } else {
          matching_.ForEachHeld([&](HeldMessage& held) {
            if (held.own_send == &operation) matching_.Forget(held);
          });
        }
        completions_.Fail(operation, std::move(late));
        break;
      case MessageStage::kPosted: completions_.Fail(operation, std::move(late)); break;
      case MessageStage::kSending:
      case MessageStage::kReleasing:
        // A send without bytes can be abandoned: the lane reads only the message's header, and the lane owns that
        // memory.
        if (operation.bytes > 0) return late;
        lanes_[static_cast<std::size_t>(operation.peer)]->LetGo(operation);
        completions_.Fail(operation, std::move(late));
        break;
      default: return late;
    }
  }
  return std::nullopt;
}

Error MessageEngine::Late(std::string_view whose, Duration time, const MessageOperation& operation) const {
  const Rank culprit = operation.peer == kAnyRank ? operation.message.source : operation.peer;
  return Error(ErrorCode::kTimeout, fmt::format("{} did not end within {}{:.3f} s: {}", Describe(operation), whose,
                                                std::chrono::duration<double>(time).count(), Explain(operation)))
      .With([&](ErrorDetails& d) { d.culprit = culprit; });
}

Error MessageEngine::LateFor(std::string_view whose, Duration time) const {
  if (const MessageOperation* const first = active_.front(); first != nullptr) return Late(whose, time, *first);
  return {ErrorCode::kTimeout, fmt::format("a message did not end within {}{:.3f} s: it has not begun", whose,
                                           std::chrono::duration<double>(time).count())};
}

std::string MessageEngine::Explain(const MessageOperation& operation) const {
  const Rank peer = operation.peer == kAnyRank ? operation.message.source : operation.peer;
  if (operation.stage != MessageStage::kPosted) {
    if (peer == options_.rank) return fmt::format("rank {} itself has posted no receive for it", peer);
    return fmt::format("{} ({})", lanes_[static_cast<std::size_t>(peer)]->Explain(operation),
                       endpoint_.DescribePeer(peer));
  }
  std::string text = operation.peer == kAnyRank ? "none has arrived from any rank"
                     : peer == options_.rank
                         ? fmt::format("rank {} itself has sent none", peer)
                         : fmt::format("none has arrived from rank {} ({})", peer, endpoint_.DescribePeer(peer));
  // If a message with another tag has arrived, its tag helps the user most.
  const HeldMessage* other = nullptr;
  std::size_t others = 0;
  matching_.ForEachHeld([&](const HeldMessage& held) {
    if (operation.peer != kAnyRank && held.source != operation.peer) return;
    if (others++ == 0) other = &held;
  });
  if (others > 0)
    text += fmt::format("; {} with another tag wait{} (the first: tag {} from rank {})", others, others == 1 ? "s" : "",
                        other->tag, other->source);
  return text;
}

void MessageEngine::Fail(MessageOperation& operation, const Error& error) {
  Error words = error;
  IfMemoryAllows([&] { words = error.With([&](ErrorDetails& d) { d.collective = Describe(operation); }); });
  completions_.Fail(operation, std::move(words));
}

void MessageEngine::FailAll(const Error& error) {
  while (!active_.empty()) Fail(*active_.front(), error);
  next_deadline_ = TimePoint::max();
}

}  // namespace rondo
