// The sending half of a message lane: which frame is next, and how frames go out together.
#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "collectives/point_to_point/message_lane.h"

namespace rondo {
namespace {

constexpr std::array<std::byte, kLineBytes> kZeros{};

// Credit goes back with whatever is sent; by itself once this part of it is owed.
constexpr std::uint64_t kReturnFraction = 4;

// No more frames are put together when they have so many bytes: by then a call more costs little.
constexpr std::uint64_t kBytesTogether = 256 * 1024;

}  // namespace

bool MessageLane::FitsEagerly(const MessageOperation& send) const {
  return send.bytes <= limits_.eager_message_bytes &&
         spent_bytes_ + CreditOf(send.bytes) <= limits_.eager_credit_bytes + returned_to_us_;
}

bool MessageLane::OwesMuchCredit() const {
  const std::uint64_t owed = owed_bytes_ - returned_bytes_;
  return owed > 0 && owed * kReturnFraction >= limits_.eager_credit_bytes;
}

bool MessageLane::HasSends() const {
  return !queued_.empty() || !announced_.empty() || !bodies_.empty() || !releasing_.empty() ||
         std::any_of(outgoing_.frames.begin() + outgoing_.first, outgoing_.frames.begin() + outgoing_.count,
                     [](const Outgoing& frame) { return frame.send != nullptr; });
}

bool MessageLane::HasOutput() const {
  if (abandoned_ || IsSilent()) return false;
  return !outgoing_.empty() || !clearing_.empty() || !refusals_.empty() || !withdrawals_.empty() ||
         (ending_ && !end_said_) || OwesMuchCredit();
}

bool MessageLane::ReleaseSent() {
  bool moved = false;
  const std::uint64_t released = lane_.released();
  while (!releasing_.empty() && releasing_.front()->release_at <= released) {
    completions_.Succeed(*releasing_.front());
    moved = true;
  }
  return moved;
}

bool MessageLane::SendFrames() {
  if (IsSilent()) return ReleaseSent();
  bool moved = false;
  const std::uint64_t turn_end = lane_.accepted() + kTurnBytes;
  while (lane_.accepted() < turn_end) {
    if (outgoing_.empty() && !NextFrames()) break;
    const Sent sent = SendBatch();
    moved |= sent.accepted > 0;
    outgoing_.sent += sent.accepted;
    while (!outgoing_.empty() && outgoing_.sent >= outgoing_.frames[outgoing_.first].bytes()) {
      const Outgoing& frame = outgoing_.frames[outgoing_.first++];
      outgoing_.sent -= frame.bytes();
      FinishFrame(frame);
    }
    if (sent.accepted < sent.asked) break;
  }
  return ReleaseSent() || moved;
}

MessageLane::Sent MessageLane::SendBatch() {
  std::array<Bytes, 3 * kMostTogether> pieces;
  std::size_t count = 0;
  std::uint64_t asked = 0;
  const auto add = [&](Bytes piece) {
    if (piece.empty()) return;
    pieces[count++] = piece;
    asked += piece.size();
  };
  for (std::size_t i = outgoing_.first; i < outgoing_.count; ++i) {
    const Outgoing& frame = outgoing_.frames[i];
    const std::uint64_t at = i == outgoing_.first ? outgoing_.sent : 0;
    const std::uint64_t payload_end = kMessageHeaderBytes + frame.payload.size();
    const std::uint64_t of_payload = std::max<std::uint64_t>(at, kMessageHeaderBytes) - kMessageHeaderBytes;
    if (at < kMessageHeaderBytes) add(Bytes(frame.header, kMessageHeaderBytes).subspan(at));
    if (at < payload_end) add(frame.payload.subspan(of_payload));
    add(frame.tail.subspan(std::max(at, payload_end) - payload_end));
  }
  return {.asked = asked, .accepted = lane_.Write(std::span(pieces.data(), count))};
}

// Puts a batch together of what is ready; false: nothing is. Of a body there is one frame at a time, and where nothing
// can be sent yet only one at all: what is in a frame cannot be taken back.
bool MessageLane::NextFrames() {
  outgoing_.first = outgoing_.count = 0;
  outgoing_.sent = 0;
  const std::size_t most = lane_.state() == LaneState::kConnecting ? 1 : kMostTogether;
  const std::uint64_t begin = lane_.accepted();
  std::uint64_t end = begin;
  while (outgoing_.count < most && end - begin < kBytesTogether) {
    if (!NextFrame(end)) break;
    const Outgoing& frame = outgoing_.frames[outgoing_.count - 1];
    end = frame.end;
    if (frame.type == MessageFrameType::kBody && frame.send->stage_link.linked()) break;
  }
  return outgoing_.count > 0;
}

bool MessageLane::NextFrame(std::uint64_t offset) {
  if (header_end_[next_header_] > lane_.released()) return false;  // still lent to the lane
  MessageHeader header;
  Outgoing& frame = outgoing_.frames[outgoing_.count];
  frame = {};
  if (!NextAnswer(header)) {
    // Small messages and the frames of large ones take turns.
    const bool found = body_next_ ? NextBody(header, frame) || NextMessage(header, frame)
                                  : NextMessage(header, frame) || NextBody(header, frame);
    if (found) {
      body_next_ = header.type != MessageFrameType::kBody;
    } else if (OwesMuchCredit()) {
      header.type = MessageFrameType::kCredit;
    } else if (ending_ && !end_said_ && !HasSends()) {
      header.type = MessageFrameType::kEnd;
      end_said_ = true;
    } else {
      return false;
    }
  }
  header.stream_offset = offset;
  header.payload_bytes = static_cast<std::uint32_t>(frame.payload.size());
  header.returned_bytes = returned_bytes_ = owed_bytes_;
  auto& place = headers_[next_header_];
  Encode(header, place);
  frame.tail = MakeTail(frame.payload, place);
  frame.type = header.type;
  frame.header = place.data();
  frame.end = offset + frame.bytes();
  header_end_[next_header_] = limits_.checksums ? frame.end : offset + kMessageHeaderBytes;
  next_header_ = (next_header_ + 1) % kHeaders;
  ++outgoing_.count;
  return true;
}

// Seals the header of the next frame, and what follows its payload.
Bytes MessageLane::MakeTail(Bytes payload, std::array<std::byte, kMessageHeaderBytes>& header) {
  if (!limits_.checksums) return Bytes(kZeros.data(), TailOf(payload.size()));
  SealHeader(header);
  if (payload.empty()) return {};
  OutgoingTail& tail = tails_[next_header_];
  tail.Seal(payload.size(), Crc32c(payload, SumOfHeader(header)));
  return tail.Last(TailOf(payload.size()));
}

bool MessageLane::NextAnswer(MessageHeader& header) {
  if (!withdrawals_.empty()) {
    header.type = MessageFrameType::kWithdrawal;
    header.id = withdrawals_.front();
    withdrawals_.pop_front();
    return true;
  }
  if (MessageOperation* const receive = clearing_.front()) {
    header.type = MessageFrameType::kClear;
    header.id = receive->id;
    StageList::Remove(*receive);
    awaiting_body_.PushBack(*receive);
    return true;
  }
  if (refusals_.empty()) return false;
  const RefusalToSend& refusal = refusals_.front();
  header.type = MessageFrameType::kRefusal;
  header.id = refusal.id;
  header.refusal = refusal.why;
  header.message_bytes = refusal.room;
  header.data_type = refusal.type;
  refusals_.pop_front();
  return true;
}

bool MessageLane::NextMessage(MessageHeader& header, Outgoing& frame) {
  MessageOperation* const send = queued_.front();
  if (send == nullptr) return false;
  const bool eager = FitsEagerly(*send);
  if (!eager && !CanAnnounce()) return false;
  header.id = send->id = ++last_id_;
  header.tag = send->tag;
  header.data_type = send->type;
  header.message_bytes = send->bytes;
  StageList::Remove(*send);
  if (eager) {
    spent_bytes_ += CreditOf(send->bytes);
    header.type = MessageFrameType::kMessage;
    send->stage = MessageStage::kSending;
    completions_.Begin(*send);
    frame.send = send;
    frame.payload = Bytes(send->buffer, send->bytes);
  } else {
    ++announced_count_;
    header.type = MessageFrameType::kAnnouncement;
    send->stage = MessageStage::kAnnounced;
    announced_.PushBack(*send);
  }
  return true;
}

bool MessageLane::NextBody(MessageHeader& header, Outgoing& frame) {
  MessageOperation* const send = bodies_.front();
  if (send == nullptr) return false;
  const std::uint64_t left = send->bytes - send->done;
  const std::uint64_t payload = std::min<std::uint64_t>(limits_.body_frame_bytes, left);
  header.type = MessageFrameType::kBody;
  header.id = send->id;
  header.payload_offset = send->done;
  frame.send = send;
  frame.payload = Bytes(send->buffer + send->done, payload);
  if (payload == left) StageList::Remove(*send);
  return true;
}

void MessageLane::FinishFrame(const Outgoing& frame) {
  if (frame.send == nullptr) return;
  MessageOperation& send = *frame.send;
  send.done += frame.payload.size();
  if (send.done < send.bytes) return;
  send.stage = MessageStage::kReleasing;
  send.release_at = frame.end;
  releasing_.PushBack(send);
}

}  // namespace rondo
