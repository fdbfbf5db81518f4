// The protocol of messages with one peer: what goes out, what comes in, and what waits for the other side.
//
// A small message goes out at once, within the credit that the receiver gave (eager): a receive that is posted gets it
// straight into its memory, else it is held, and its credit returns when a receive has taken it. A larger message, or
// one without credit, is announced; its body goes out when the receiver has matched it and cleared it, so that it is
// received straight into the user's memory whatever its size. Both kinds go out in the order of their issue, and frames
// that wait together are written together: a write may be a system call, or a packet.
//
// Hence what a peer can make this rank hold is bounded: eager_credit_bytes and max_announced_messages. When both are
// used up, sends wait here, in their order. What comes in is always read: no lane is ever stopped by a message that
// nobody wants.
//
// With checksums a header is believed when it has matched, and a message ends with success when all of its frames have:
// what a receive, or the memory of a held message, gets before is looked at by nobody.
//
// Sans-I/O, and knows the lane only by its interface. Thread rule: the engine's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/result.h"
#include "collectives/framing/frame_receiver.h"
#include "collectives/framing/frame_sender.h"
#include "collectives/point_to_point/eager_credit.h"
#include "collectives/point_to_point/matching.h"
#include "collectives/point_to_point/message_frame.h"
#include "collectives/point_to_point/operation.h"
#include "transport/lane.h"

namespace rondo {

struct MessageLimits {
  // Messages up to this size go out without asking, as far as there is credit.
  std::uint64_t eager_message_bytes = 64 << 10;
  // What one peer may send without asking and this rank has not received: bytes of the stream. Equal on all ranks.
  std::uint64_t eager_credit_bytes = 512 << 10;
  // Messages that one peer has announced and this rank has not matched. Equal on all ranks.
  std::uint32_t max_announced_messages = 1024;
  // Payload of one frame of an announced message: what a small message behind it waits for.
  std::uint32_t body_frame_bytes = 256 << 10;
  // Frames carry checksums, and those of announced messages have at most kMostCheckedPayload. Equal on all ranks.
  bool checksums = false;
};

class MessageLane {
 public:
  // All outlive it. `self` is this rank.
  MessageLane(const MessageLimits& limits, Lane& lane, Rank self, Matching& matching, Completions& completions);

  Rank peer() const { return lane_.peer(); }
  const Lane& lane() const { return lane_; }

  // ---- from this rank ----

  // A send, after those before it.
  void Send(MessageOperation& send);
  // The receive, which is not posted any more, takes a message held from this peer. Where the two do not fit the
  // receive fails, and so does the send if it was announced.
  void Take(MessageOperation& receive, HeldMessage& held);
  // Takes a send back that is queued or announced. REQUIRES: one of these.
  void Withdraw(MessageOperation& send);
  // Knows nothing more of a send whose frame is on its way: that still goes, and may arrive. REQUIRES: it has no bytes,
  // so that none are lent to the lane.
  void LetGo(const MessageOperation& send);
  // No more sends and receives will be issued: refuses what is announced and unmatched, now and later, and says the
  // end when all sends are through.
  void BeginEnd();

  // The peer has closed its communicator, and all of its messages are under way. This lane writes nothing more to the
  // peer until it has read all of them. If the peer's process had ended, its system would answer a write by a TCP
  // reset, and the messages that were not delivered yet would be lost.
  void PeerDeparts() {
    if (peer_state_ == PeerState::kOpen) peer_state_ = PeerState::kClosing;
  }

  // The lane is over and nobody needs it: its operations are ended by others, Poll does nothing from now on.
  void Abandon();
  bool abandoned() const { return abandoned_; }

  // Moves what can move. An error (kProtocol, kOutOfMemory; kCorrupt: a checksum did not match) is final.
  Result<bool> Poll();
  // Whether the next frame has begun to come.
  bool HasNews();

  // ---- how it stands ----

  // Something is to go out, so the lane should be polled.
  bool HasOutput() const;
  // The peer has said that it sends no more.
  bool peer_ended() const { return peer_state_ == PeerState::kEnded; }
  bool HasSends() const;
  bool HasMatched() const { return !clearing_.empty() || !awaiting_body_.empty() || incoming_.receive != nullptr; }
  // Who waits for what, in words: "rank 3 has posted no receive for it".
  std::string Explain(const MessageOperation& operation) const;

 private:
  struct Outgoing {
    OutgoingFrame frame;
    MessageFrameType type = MessageFrameType::kCredit;
    std::uint64_t end = 0;             // of the frame, in the stream
    MessageOperation* send = nullptr;  // whose payload it carries
  };
  // Frames that are written in one call: beyond 8 the call is a small part of what they cost.
  static constexpr std::size_t kMaxBatch = 8;
  static_assert(2 * kMaxBatch <= FrameSender::kHeaders);
  struct Batch {
    std::array<Outgoing, kMaxBatch> frames;
    std::size_t first = 0;  // the first frame that the lane has not accepted whole
    std::size_t count = 0;
    bool empty() const { return first == count; }
  };
  // The frame that comes in, once its header has.
  struct Incoming {
    MessageFrameType type = MessageFrameType::kCredit;
    // At most one of them: where the payload goes. Neither: nowhere.
    MessageOperation* receive = nullptr;
    HeldMessage* held = nullptr;
  };
  enum class PeerState : std::uint8_t {
    kOpen,
    kClosing,  // it has closed, and its end frame is still to come
    kEnded,    // its end frame has come: it sends no more
  };
  struct RefusalToSend {
    std::uint64_t id;
    Refusal why;
    std::uint64_t room = 0;
    DataType type = DataType::kUint8;
  };

  Result<bool> ReceiveFrames();
  Status OnHeader(const MessageHeader& header);
  Status OnMessage(const MessageHeader& header);
  Status OnBody(const MessageHeader& header);
  Status OnAnswer(const MessageHeader& header);
  Status OnWithdrawal(const MessageHeader& header);
  bool TakePayload();
  void FinishIncoming();

  bool IsSilent() const { return peer_state_ == PeerState::kClosing; }
  bool SendFrames();
  bool NextFrames();
  bool NextFrame(std::uint64_t offset);
  // Writes what is left of the batch, in one call; returns whether the lane took all of it.
  bool SendBatch();
  bool NextAnswer(MessageHeader& header);
  bool NextMessage(MessageHeader& header, MessageOperation*& carried, Bytes& payload);
  bool NextBody(MessageHeader& header, MessageOperation*& carried, Bytes& payload);
  void FinishFrame(const Outgoing& outgoing);
  bool ReleaseSent();

  void Match(MessageOperation& receive, Tag tag, DataType type, std::uint64_t bytes) const;
  bool CanAnnounce() const { return announced_count_ < limits_.max_announced_messages; }
  tl::unexpected<Error> Breach(std::string what) const;

  const MessageLimits limits_;
  Lane& lane_;
  const Rank self_;
  Matching& matching_;
  Completions& completions_;
  EagerCredit credit_;

  // ---- outgoing ----
  FrameSender sender_;
  Batch outgoing_;
  StageList queued_;
  StageList announced_;  // by id
  StageList bodies_;     // cleared, in the order of their clearing, and not all in frames
  StageList releasing_;  // by release_at
  std::uint32_t announced_count_ = 0;
  std::uint64_t last_id_ = 0;
  bool body_next_ = false;  // bodies and messages take turns
  std::uint32_t looks_skipped_ = 0;
  std::deque<RefusalToSend> refusals_;     // at most max_announced_messages
  std::deque<std::uint64_t> withdrawals_;  // likewise
  bool ending_ = false;
  bool abandoned_ = false;
  bool end_said_ = false;

  // ---- incoming ----
  FrameReceiver receiver_;
  Incoming incoming_;
  StageList clearing_;       // receives whose message is to be cleared
  StageList awaiting_body_;  // and has been
  std::uint64_t last_incoming_id_ = 0;
  std::uint32_t held_announcements_ = 0;
  PeerState peer_state_ = PeerState::kOpen;
};

// Whether the message is what the receive can take; the error if it is not, as the receive gets it.
std::optional<Error> Misfit(const MessageOperation& receive, Rank source, Tag tag, DataType type, std::uint64_t bytes);

}  // namespace rondo
