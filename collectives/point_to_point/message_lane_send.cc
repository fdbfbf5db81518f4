// The sending half of a message lane: it selects the next frame and writes several frames together.
#include <algorithm>
#include <utility>

#include "collectives/point_to_point/message_lane.h"

namespace rondo {
namespace {

// A batch of at least this size gets no more frames, because another call costs little compared with writing the batch.
constexpr std::uint64_t kBytesTogether = 256 * 1024;

}  // namespace

bool MessageLane::HasSends() const {
  return !queued_.empty() || !announced_.empty() || !bodies_.empty() || !releasing_.empty() ||
         std::any_of(outgoing_.frames.begin() + outgoing_.first, outgoing_.frames.begin() + outgoing_.count,
                     [](const Outgoing& outgoing) { return outgoing.send != nullptr; });
}

bool MessageLane::HasOutput() const {
  if (abandoned_ || IsSilent()) return false;
  return !outgoing_.empty() || !clearing_.empty() || !refusals_.empty() || !withdrawals_.empty() ||
         (ending_ && !end_said_) || credit_.OwesMuch();
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
    const std::uint64_t before = lane_.accepted();
    const bool all = SendBatch();
    moved |= lane_.accepted() > before;
    if (!all) break;
  }
  return ReleaseSent() || moved;
}

bool MessageLane::SendBatch() {
  FramePieces<kMaxBatch> pieces;
  for (std::size_t i = outgoing_.first; i < outgoing_.count; ++i) {
    const OutgoingFrame& frame = outgoing_.frames[i].frame;
    sender_.Gather(frame, frame.payload_bytes, pieces);
  }
  std::uint64_t left = lane_.Write(pieces.all());
  const bool all = left == pieces.asked();
  while (left > 0) {
    Outgoing& outgoing = outgoing_.frames[outgoing_.first];
    const std::uint64_t taken = std::min(left, outgoing.frame.bytes() - outgoing.frame.sent);
    outgoing.frame.sent += taken;
    left -= taken;
    if (!outgoing.frame.all_sent()) break;
    ++outgoing_.first;
    FinishFrame(outgoing);
  }
  return all;
}

// Puts the frames that are ready into a batch. False: no frame is ready. A batch ends after a frame of a body unless
// that frame is the final one of the body. While the lane is connecting, a batch has one frame only, because a send
// whose frame is made cannot be withdrawn.
bool MessageLane::NextFrames() {
  outgoing_.first = outgoing_.count = 0;
  const std::size_t most = lane_.state() == LaneState::kConnecting ? 1 : kMaxBatch;
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
  if (!sender_.HasFreeHeader()) return false;
  MessageHeader header;
  MessageOperation* send = nullptr;
  Bytes payload;
  if (!NextAnswer(header)) {
    // Small messages and frames of large messages alternate.
    const bool found = body_next_ ? NextBody(header, send, payload) || NextMessage(header, send, payload)
                                  : NextMessage(header, send, payload) || NextBody(header, send, payload);
    if (found) {
      body_next_ = header.type != MessageFrameType::kBody;
    } else if (credit_.OwesMuch()) {
      header.type = MessageFrameType::kCredit;
    } else if (ending_ && !end_said_ && !HasSends()) {
      header.type = MessageFrameType::kEnd;
      end_said_ = true;
    } else {
      return false;
    }
  }
  header.stream_offset = offset;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.returned_bytes = credit_.Return();
  Encode(header, sender_.Header());
  const OutgoingFrame frame = sender_.Make(payload.data(), payload.size());
  sender_.Begin(frame, offset);
  outgoing_.frames[outgoing_.count++] = {
      .frame = frame, .type = header.type, .end = offset + frame.bytes(), .send = send};
  return true;
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

bool MessageLane::NextMessage(MessageHeader& header, MessageOperation*& carried, Bytes& payload) {
  MessageOperation* const send = queued_.front();
  if (send == nullptr) return false;
  const bool eager = send->bytes <= limits_.eager_message_bytes && credit_.Allows(send->bytes);
  if (!eager && !CanAnnounce()) return false;
  header.id = send->id = ++last_id_;
  header.tag = send->tag;
  header.data_type = send->type;
  header.message_bytes = send->bytes;
  StageList::Remove(*send);
  if (eager) {
    credit_.Spend(send->bytes);
    header.type = MessageFrameType::kMessage;
    send->stage = MessageStage::kSending;
    completions_.Begin(*send);
    carried = send;
    payload = Bytes(send->buffer, send->bytes);
  } else {
    ++announced_count_;
    header.type = MessageFrameType::kAnnouncement;
    send->stage = MessageStage::kAnnounced;
    announced_.PushBack(*send);
  }
  return true;
}

bool MessageLane::NextBody(MessageHeader& header, MessageOperation*& carried, Bytes& payload) {
  MessageOperation* const send = bodies_.front();
  if (send == nullptr) return false;
  const std::uint64_t left = send->bytes - send->done;
  const std::uint64_t bytes = std::min<std::uint64_t>(limits_.body_frame_bytes, left);
  header.type = MessageFrameType::kBody;
  header.id = send->id;
  header.payload_offset = send->done;
  carried = send;
  payload = Bytes(send->buffer + send->done, bytes);
  if (bytes == left) StageList::Remove(*send);
  return true;
}

void MessageLane::FinishFrame(const Outgoing& outgoing) {
  if (outgoing.send == nullptr) return;
  MessageOperation& send = *outgoing.send;
  send.done += outgoing.frame.payload_bytes;
  if (send.done < send.bytes) return;
  send.stage = MessageStage::kReleasing;
  send.release_at = outgoing.end;
  releasing_.PushBack(send);
}

}  // namespace rondo
