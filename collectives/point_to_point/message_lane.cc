#include "collectives/point_to_point/message_lane.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rondo {
namespace {

// Maximum number of polls in a row that only send and do not read from the lane.
constexpr std::uint32_t kLooksSkipped = 4;

// Limits the size of body frames, so that a frame with checksums is still in the cache when it is verified.
MessageLimits WithFrames(MessageLimits limits) {
  if (limits.checksums) limits.body_frame_bytes = std::min(limits.body_frame_bytes, kMaxCheckedPayload);
  return limits;
}

}  // namespace

std::optional<Error> Misfit(const MessageOperation& receive, Rank source, Tag tag, DataType type, std::uint64_t bytes) {
  if (type == receive.type && bytes <= receive.bytes) return std::nullopt;
  const std::string sent = fmt::format("{} x {}", Name(type), bytes / SizeOf(type));
  const std::string room = fmt::format("{} x {}", Name(receive.type), receive.bytes / SizeOf(receive.type));
  return Error(ErrorCode::kMismatch,
               type == receive.type
                   ? fmt::format("the message from rank {} with tag {} is longer than its receive: {}, room for {}",
                                 source, tag, sent, room)
                   : fmt::format("the message from rank {} with tag {} is of another type than its receive: {}, not {}",
                                 source, tag, sent, room))
      .With([&](ErrorDetails& d) { d.culprit = source; });
}

MessageLane::MessageLane(const MessageLimits& limits, Lane& lane, Rank self, Matching& matching,
                         Completions& completions)
    : limits_(WithFrames(limits)),
      lane_(lane),
      self_(self),
      matching_(matching),
      completions_(completions),
      credit_(limits.eager_credit_bytes),
      sender_(lane, limits.checksums),
      receiver_(lane, kMessageLaneIndex, limits.checksums) {
  RONDO_CHECK(limits.body_frame_bytes >= kLineBytes && limits.body_frame_bytes % kLineBytes == 0, "body_frame_bytes {}",
              limits.body_frame_bytes);
}

// ---- requests of this rank ----

void MessageLane::Send(MessageOperation& send) {
  send.stage = MessageStage::kQueued;
  queued_.PushBack(send);
}

void MessageLane::Take(MessageOperation& receive, HeldMessage& held) {
  const bool coming = incoming_.held == &held;
  if (auto misfit = Misfit(receive, peer(), held.tag, held.type, held.bytes)) {
    if (held.announced) {
      --held_announcements_;
      refusals_.push_back(
          {held.id, held.type == receive.type ? Refusal::kTooLong : Refusal::kOtherType, receive.bytes, receive.type});
    } else if (coming) {
      incoming_.held = nullptr;  // the lane discards the rest of the payload and then returns the credit
    } else {
      credit_.Owe(held.bytes);
    }
    matching_.Forget(held);
    completions_.Fail(receive, *std::move(misfit));
    return;
  }
  Match(receive, held.tag, held.type, held.bytes);
  if (held.announced) {
    --held_announcements_;
    receive.id = held.id;
    receive.stage = MessageStage::kMatched;
    clearing_.PushBack(receive);
    matching_.Forget(held);
  } else if (coming) {
    matching_.Detach(held);
    held.receiver = &receive;
  } else {
    std::copy_n(held.data.get(), held.bytes, receive.buffer);
    credit_.Owe(held.bytes);
    matching_.Forget(held);
    completions_.Succeed(receive);
  }
}

void MessageLane::Match(MessageOperation& receive, Tag tag, DataType type, std::uint64_t bytes) const {
  receive.message = {peer(), tag, type, bytes / SizeOf(type)};
  receive.message_bytes = bytes;
  receive.done = 0;
  receive.stage = MessageStage::kReceiving;
  completions_.Begin(receive);
}

void MessageLane::Withdraw(MessageOperation& send) {
  RONDO_CHECK(send.stage == MessageStage::kQueued || send.stage == MessageStage::kAnnounced, "its bytes are under way");
  if (send.stage == MessageStage::kAnnounced) {
    withdrawals_.push_back(send.id);
    --announced_count_;
  }
  StageList::Remove(send);
}

void MessageLane::LetGo(const MessageOperation& send) {
  RONDO_CHECK(send.bytes == 0, "{} bytes of it are in use by the lane", send.bytes);
  for (std::size_t i = outgoing_.first; i < outgoing_.count; ++i)
    if (outgoing_.frames[i].send == &send) outgoing_.frames[i].send = nullptr;
}

void MessageLane::BeginEnd() {
  if (std::exchange(ending_, true)) return;
  matching_.ForEachHeld([&](HeldMessage& message) {
    if (message.source != peer() || !message.announced) return;
    refusals_.push_back({message.id, Refusal::kClosed});
    --held_announcements_;
    matching_.Forget(message);
  });
}

void MessageLane::Abandon() {
  abandoned_ = true;
  outgoing_ = {};
  if (incoming_.held != nullptr) matching_.Forget(*incoming_.held);  // the rest of its payload will not arrive
  incoming_ = {};
  receiver_.End();
  refusals_.clear();
  withdrawals_.clear();
}

Result<bool> MessageLane::Poll() {
  if (abandoned_) return false;
  // New sends go out before the lane is read: reading may be a system call, and the peer waits for the sends.
  const bool sends_alone = !queued_.empty() && bodies_.empty() && outgoing_.empty() && looks_skipped_ < kLooksSkipped;
  if (sends_alone && SendFrames()) {
    ++looks_skipped_;
    return true;
  }
  looks_skipped_ = 0;
  RONDO_ASSIGN(const bool received, ReceiveFrames());
  const bool sent = SendFrames();
  return received || sent;
}

bool MessageLane::HasNews() {
  if (abandoned_ || receiver_.receiving()) return false;
  return lane_.Peek(kFrameHeaderBytes).size() >= kFrameHeaderBytes;
}

// ---- receiving ----

Result<bool> MessageLane::ReceiveFrames() {
  bool moved = false;
  const std::uint64_t turn_end = lane_.consumed() + kTurnBytes;
  while (lane_.consumed() < turn_end) {
    if (!receiver_.receiving()) {
      HeaderArray bytes;
      RONDO_ASSIGN(const bool found, receiver_.PeekHeader(bytes));
      if (!found) return moved;
      MessageHeader header;
      if (const auto fault = Decode(bytes, header)) return Breach(fmt::format("an invalid frame ({})", *fault));
      if (header.stream_offset != lane_.consumed())
        return Breach(fmt::format("a header that names stream offset {}", header.stream_offset));
      receiver_.Begin(header.payload_bytes);
      incoming_ = {.type = header.type};
      RONDO_TRY(OnHeader(header));
      moved = true;
    }
    while (receiver_.payload_left() > 0) {
      if (!TakePayload()) return moved;
      moved = true;
    }
    switch (receiver_.TakeTail()) {
      case FrameReceiver::Tail::kNothing: return moved;
      case FrameReceiver::Tail::kPart: return true;
      case FrameReceiver::Tail::kWhole: break;
      case FrameReceiver::Tail::kDamaged:
        return Fail(receiver_.DamagedPayload(fmt::format("in {} bytes of a message", receiver_.payload_bytes())));
    }
    moved = true;
    FinishIncoming();
    // If no further bytes are here, return now: the caller that waits for this message then gets it sooner.
    if (lane_.Peek(0).size() == 0) return true;
  }
  return moved;
}

bool MessageLane::TakePayload() {
  const std::uint64_t left = receiver_.payload_left();
  if (MessageOperation* const receive = incoming_.receive) {
    const std::size_t taken = receiver_.Take(MutableBytes(receive->buffer + receive->done, left));
    receive->done += taken;
    return taken > 0;
  }
  if (HeldMessage* const held = incoming_.held) {
    const std::size_t taken = receiver_.Take(MutableBytes(held->data.get() + held->arrived, left));
    held->arrived += taken;
    return taken > 0;
  }
  return receiver_.Discard() > 0;
}

Status MessageLane::OnHeader(const MessageHeader& header) {
  if (!credit_.Regain(header.returned_bytes))
    return Breach(
        fmt::format("a return of {} bytes of credit in all, although {} of the {} spent bytes had been returned",
                    header.returned_bytes, credit_.regained(), credit_.spent()));
  switch (header.type) {
    case MessageFrameType::kMessage:
    case MessageFrameType::kAnnouncement: return OnMessage(header);
    case MessageFrameType::kBody: return OnBody(header);
    case MessageFrameType::kClear:
    case MessageFrameType::kRefusal: return OnAnswer(header);
    case MessageFrameType::kWithdrawal: return OnWithdrawal(header);
    case MessageFrameType::kEnd: peer_state_ = PeerState::kEnded; return {};
    case MessageFrameType::kCredit: return {};
  }
  return {};
}

Status MessageLane::OnMessage(const MessageHeader& header) {
  if (header.id != ++last_incoming_id_)
    return Breach(fmt::format("message number {}, expected {}", header.id, last_incoming_id_));
  const bool eager = header.type == MessageFrameType::kMessage;
  if (eager) {
    if (!credit_.Take(header.message_bytes))
      return Breach(fmt::format("a message of {} bytes beyond its credit (eager_credit_bytes is {} here)",
                                header.message_bytes, limits_.eager_credit_bytes));
  } else if (++held_announcements_ > limits_.max_announced_messages) {
    return Breach(fmt::format("more announcements than max_announced_messages, which is {} here",
                              limits_.max_announced_messages));
  }

  MessageOperation* const receive = matching_.TakeReceive(peer(), header.tag);
  if (receive != nullptr && eager) {
    if (auto misfit = Misfit(*receive, peer(), header.tag, header.data_type, header.message_bytes)) {
      completions_.Fail(*receive, *std::move(misfit));
      return {};  // the payload is discarded
    }
    Match(*receive, header.tag, header.data_type, header.message_bytes);
    incoming_.receive = receive;
    return {};
  }
  if (receive == nullptr && !eager && ending_) {
    --held_announcements_;
    refusals_.push_back({header.id, Refusal::kClosed});
    return {};
  }
  HeldMessage* const held = matching_.Hold(peer(), eager ? header.message_bytes : 0);
  if (held == nullptr)
    return Fail(ErrorCode::kOutOfMemory, "no memory for a message of {} bytes from rank {}", header.message_bytes,
                peer());
  held->tag = header.tag;
  held->type = header.data_type;
  held->bytes = header.message_bytes;
  held->announced = !eager;
  held->id = header.id;
  if (eager) incoming_.held = held;
  if (receive != nullptr) Take(*receive, *held);  // the message is announced: clear it at once
  return {};
}

Status MessageLane::OnBody(const MessageHeader& header) {
  MessageOperation* const receive =
      awaiting_body_.Find([&](const MessageOperation& one) { return one.id == header.id; });
  if (receive == nullptr)
    return Breach(fmt::format("the body of message {}, for which this rank has not asked", header.id));
  if (header.payload_offset != receive->done || header.payload_bytes > receive->message_bytes - receive->done)
    return Breach(fmt::format("{} bytes at offset {} of message {}, of which {} of {} bytes had arrived",
                              header.payload_bytes, header.payload_offset, header.id, receive->done,
                              receive->message_bytes));
  receive->stage = MessageStage::kReceiving;
  incoming_.receive = receive;
  return {};
}

Status MessageLane::OnAnswer(const MessageHeader& header) {
  MessageOperation* const send = announced_.Find([&](const MessageOperation& one) { return one.id == header.id; });
  if (send == nullptr) {
    // An answer and a withdrawal may cross on the wire, so an answer to a message that is no longer announced is
    // ignored. An answer to an id that was never sent is an error.
    if (header.id > last_id_)
      return Breach(fmt::format("an answer to message {}, but only {} messages were sent", header.id, last_id_));
    return {};
  }
  --announced_count_;
  StageList::Remove(*send);
  if (header.type == MessageFrameType::kClear) {
    send->stage = MessageStage::kSending;
    completions_.Begin(*send);
    bodies_.PushBack(*send);
    return {};
  }
  if (header.refusal == Refusal::kClosed) {
    completions_.Fail(*send,
                      Error(ErrorCode::kClosed,
                            fmt::format("rank {} closed without posting a receive for the {}", peer(), Describe(*send)))
                          .With([&](ErrorDetails& d) { d.culprit = peer(); }));
    return {};
  }
  completions_.Fail(
      *send, Error(ErrorCode::kMismatch,
                   fmt::format("the receive on rank {} ({} x {}) does not fit the {}", peer(), Name(header.data_type),
                               header.message_bytes / SizeOf(header.data_type), Describe(*send)))
                 .With([&](ErrorDetails& d) { d.culprit = peer(); }));
  return {};
}

Status MessageLane::OnWithdrawal(const MessageHeader& header) {
  if (HeldMessage* const held = matching_.FindAnnounced(peer(), header.id)) {
    --held_announcements_;
    matching_.Forget(*held);
    return {};
  }
  const auto is_it = [&](const MessageOperation& one) { return one.id == header.id; };
  MessageOperation* receive = clearing_.Find(is_it);
  if (receive == nullptr) receive = awaiting_body_.Find(is_it);
  if (receive == nullptr) return {};  // this rank had refused the message
  if (receive->done > 0)
    return Breach(fmt::format("the withdrawal of message {} after a part of it was sent", header.id));
  // The receive waits again, as if it had never matched the message.
  StageList::Remove(*receive);
  receive->message = {};
  matching_.PostAgain(*receive);
  return {};
}

void MessageLane::FinishIncoming() {
  const Incoming done = std::exchange(incoming_, {});
  receiver_.End();
  switch (done.type) {
    case MessageFrameType::kMessage:
      // the credit of a held message returns when a receive takes it
      if (done.held != nullptr && done.held->receiver == nullptr) return;
      if (done.held != nullptr) {
        MessageOperation& receive = *done.held->receiver;
        std::copy_n(done.held->data.get(), receiver_.payload_bytes(), receive.buffer);
        matching_.Forget(*done.held);
        completions_.Succeed(receive);
      } else if (done.receive != nullptr) {
        completions_.Succeed(*done.receive);
      }
      credit_.Owe(receiver_.payload_bytes());
      return;
    case MessageFrameType::kBody:
      if (done.receive->done == done.receive->message_bytes) completions_.Succeed(*done.receive);
      return;
    default: return;
  }
}

// ---- state ----

std::string MessageLane::Explain(const MessageOperation& operation) const {
  const Rank other = peer();
  switch (operation.stage) {
    case MessageStage::kSubmitted: break;
    case MessageStage::kQueued:
      if (lane_.state() == LaneState::kConnecting) return fmt::format("rank {} is not connected yet", other);
      if (announced_count_ >= limits_.max_announced_messages)
        return fmt::format("rank {} has posted no receives for {} messages before it (max_announced_messages)", other,
                           announced_count_);
      return fmt::format("rank {} does not read from the lane", other);
    case MessageStage::kAnnounced: return fmt::format("rank {} has posted no receive for it", other);
    case MessageStage::kSending:
      return fmt::format("rank {} has taken {} of {} bytes", other, operation.done, operation.bytes);
    case MessageStage::kReleasing: return fmt::format("rank {} has not taken all of its bytes", other);
    case MessageStage::kPosted: break;
    case MessageStage::kMatched:
    case MessageStage::kReceiving:
      return fmt::format("rank {} has sent {} of {} bytes of the message with tag {}", other, operation.done,
                         operation.message_bytes, operation.message.tag);
  }
  return "it has not begun";
}

tl::unexpected<Error> MessageLane::Breach(std::string what) const {
  return Fail(
      Error(ErrorCode::kProtocol,
            fmt::format(
                "rank {0} broke the protocol on the lane of messages to rank {2}, at stream offset {3}: it sent {1}",
                peer(), what, self_, lane_.consumed()))
          .With([&](ErrorDetails& d) { d.culprit = peer(); }));
}

}  // namespace rondo
