// Exchanges messages with one peer, and keeps those that wait for the other side.
//
// Eager: a small message is sent immediately, within the credit that the receiver has granted. If a matching receive is
// posted, the message is received directly into the receive's memory. Otherwise the receiver holds the message, and
// returns its credit when a receive has taken it.
//
// Announced: a larger message, or one for which credit is missing, is announced by a header. The receiver clears it
// when a receive has matched it; then the sender sends the body. So a message of any size is received directly into the
// user's memory.
//
// Messages and announcements are sent in the order of their issue. Frames that are ready together are written together,
// because every write may cost a system call or a packet.
//
// The limits eager_credit_bytes and max_announced_messages limit the memory that a peer can make this rank hold. If
// both limits are reached, sends wait at the sender, in their order. A lane reads everything that arrives: a message
// without a receive never stops it.
//
// With checksums, the lane uses a header only after its checksum has matched. A message succeeds only when the
// checksums of all of its frames have matched; until then no code reads its payload.
//
// This class is sans-I/O and uses the lane only through its interface. Thread rule: the engine's thread.
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
  // Messages of at most this size are sent eagerly if there is credit.
  std::uint64_t eager_message_bytes = 64 << 10;
  // Limit for eager messages of one peer that no receive has taken yet, in bytes of the stream. Equal on all ranks.
  std::uint64_t eager_credit_bytes = 512 << 10;
  // Limit for messages that one peer has announced and that no receive has matched yet. Equal on all ranks.
  std::uint32_t max_announced_messages = 1024;
  // Maximum payload of one frame of an announced message's body. So a small message waits for at most one such frame.
  std::uint32_t body_frame_bytes = 256 << 10;
  // Frames carry checksums, and frames of bodies have at most kMaxCheckedPayload bytes of payload. Equal on all ranks.
  bool checksums = false;
};

class MessageLane {
 public:
  // All references must outlive this object. `self` is this rank.
  MessageLane(const MessageLimits& limits, Lane& lane, Rank self, Matching& matching, Completions& completions);

  Rank peer() const { return lane_.peer(); }
  const Lane& lane() const { return lane_; }

  // ---- requests of this rank ----

  // Queues a send behind earlier sends.
  void Send(MessageOperation& send);
  // Gives `held`, a message that came from this peer, to `receive`, which must not be posted any more. If the message
  // does not fit the receive, the receive fails; if the message is announced, its send fails too.
  void Take(MessageOperation& receive, HeldMessage& held);
  // Withdraws a send. The caller ends the operation. REQUIRES: the send is queued or announced.
  void Withdraw(MessageOperation& send);
  // Drops the reference to a send whose frame is being sent. The frame is still sent and may arrive. REQUIRES: the send
  // has no bytes, because the lane must not use the memory of a dropped send.
  void LetGo(const MessageOperation& send);
  // Called when no more sends and receives will be issued. From now on the lane refuses announced messages that no
  // receive has matched, and it sends an end frame when all sends are complete.
  void BeginEnd();

  // Called when the peer has closed its communicator and all of its messages are under way. From now on this lane
  // writes nothing to the peer until it has read all of them. Otherwise, if the peer's process has ended, its system
  // would answer a write with a TCP reset, and the messages that are not delivered yet would be lost.
  void PeerDeparts() {
    if (peer_state_ == PeerState::kOpen) peer_state_ = PeerState::kClosing;
  }

  // Stops using the lane, which has ended or failed. The caller ends the lane's operations. From now on Poll does
  // nothing.
  void Abandon();
  bool abandoned() const { return abandoned_; }

  // Moves the bytes that can move now. Returns whether anything moved. An error (kProtocol, kOutOfMemory; kCorrupt: a
  // checksum did not match) is final.
  Result<bool> Poll();
  // Whether the header of the next frame has arrived.
  bool HasNews();

  // ---- state ----

  // Whether anything waits to be sent: the rest of a batch, answers, credit or the end frame. If so, the lane must be
  // polled even if no operation of this rank is pending.
  bool HasOutput() const;
  // Whether the peer's end frame has arrived: the peer sends no more messages.
  bool peer_ended() const { return peer_state_ == PeerState::kEnded; }
  bool HasSends() const;
  bool HasMatched() const { return !clearing_.empty() || !awaiting_body_.empty() || incoming_.receive != nullptr; }
  // Says for an error message why the operation has not ended: "rank 3 has posted no receive for it".
  std::string Explain(const MessageOperation& operation) const;

 private:
  struct Outgoing {
    OutgoingFrame frame;
    MessageFrameType type = MessageFrameType::kCredit;
    std::uint64_t end = 0;             // stream offset of the frame's end
    MessageOperation* send = nullptr;  // the send whose payload the frame carries
  };
  // Maximum number of frames in one write. With 8 frames the call itself is already a small part of the cost.
  static constexpr std::size_t kMaxBatch = 8;
  static_assert(2 * kMaxBatch <= FrameSender::kHeaders);
  struct Batch {
    std::array<Outgoing, kMaxBatch> frames;
    std::size_t first = 0;  // the first frame that the lane has not accepted completely
    std::size_t count = 0;
    bool empty() const { return first == count; }
  };
  // The frame whose payload is being received; its header has been read.
  struct Incoming {
    MessageFrameType type = MessageFrameType::kCredit;
    // At most one of `receive` and `held` is set: the payload's destination. If neither is set, the payload is
    // discarded.
    MessageOperation* receive = nullptr;
    HeldMessage* held = nullptr;
  };
  enum class PeerState : std::uint8_t {
    kOpen,
    kClosing,  // the peer has closed, and its end frame has not arrived
    kEnded,    // the peer's end frame has arrived: the peer sends no more messages
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
  // Writes the rest of the batch in one call. Returns whether the lane accepted all of it.
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
  StageList announced_;  // in order of id
  StageList bodies_;     // cleared sends whose body is not completely in frames, in the order of clearing
  StageList releasing_;  // in order of release_at
  std::uint32_t announced_count_ = 0;
  std::uint64_t last_id_ = 0;
  bool body_next_ = false;                 // the next frame is one of a body: bodies and messages alternate
  std::uint32_t looks_skipped_ = 0;        // number of polls in a row that have not read from the lane
  std::deque<RefusalToSend> refusals_;     // at most max_announced_messages
  std::deque<std::uint64_t> withdrawals_;  // ids of withdrawn messages, at most max_announced_messages
  bool ending_ = false;
  bool abandoned_ = false;
  bool end_said_ = false;

  // ---- incoming ----
  FrameReceiver receiver_;
  Incoming incoming_;
  StageList clearing_;       // receives for which a clear frame must still be sent
  StageList awaiting_body_;  // receives for which a clear frame was sent
  std::uint64_t last_incoming_id_ = 0;
  std::uint32_t held_announcements_ = 0;
  PeerState peer_state_ = PeerState::kOpen;
};

// Returns nothing if `receive` can take the message, otherwise the error for the receive.
std::optional<Error> Misfit(const MessageOperation& receive, Rank source, Tag tag, DataType type, std::uint64_t bytes);

}  // namespace rondo
