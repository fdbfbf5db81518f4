// The headers of messages' frames, version 1 (docs/WIRE.md has the grammar; framing/frame_prefix.h what they share with
// those of collectives).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"
#include "collectives/framing/frame_prefix.h"
#include "collectives/point_to_point/message.h"
#include "transport/lane_index.h"

namespace rondo {

// Messages with a peer have a lane of their own (kMessageLaneIndex). Whoever opens it tells its peer by a heartbeat
// with this body, so that the peer opens it too: a receive from any rank cannot know whom to listen to.
std::string LaneCall();
bool IsLaneCall(std::string_view body);

// The numbers go over the wire; 1 is a collective's data.
enum class MessageFrameType : std::uint8_t {
  kMessage = 2,       // a whole message, within the credit of its sender
  kAnnouncement = 3,  // a message that waits at its sender until it is asked for
  kClear = 4,         // a receive has matched the announcement: send the body
  kBody = 5,          // a piece of an announced message
  kRefusal = 6,       // the announced message will not be received; `refusal` says why
  kCredit = 7,        // only `returned_bytes`
  kEnd = 8,           // nothing follows from this rank but answers: it closes
  kWithdrawal = 9,    // the announced message will not be sent: its sender gave up
};

enum class Refusal : std::uint8_t {
  kNone = 0,
  kTooLong = 1,    // for the receive that matched it: `message_bytes` is that one's room
  kOtherType = 2,  // that one's is `type`
  kClosed = 3,     // the rank closes and has no receive for it
};

struct MessageHeader {
  MessageFrameType type = MessageFrameType::kCredit;
  std::uint64_t stream_offset = 0;        // of this header, in its lane direction
  std::uint64_t payload_offset = 0;       // of a body's piece, within its message
  std::uint32_t payload_bytes = 0;        // of this frame
  Tag tag = 0;                            // of message, announcement
  std::uint64_t id = 0;                   // counts messages and announcements of this lane direction, from 1
  std::uint64_t message_bytes = 0;        // of message, announcement; of a refusal: the receive's room
  std::uint64_t returned_bytes = 0;       // eager credit returned so far, in all
  DataType data_type = DataType::kUint8;  // of message, announcement; of a refusal: the receive's
  Refusal refusal = Refusal::kNone;
  bool operator==(const MessageHeader&) const = default;
};

void Encode(const MessageHeader& header, FrameHeaderBytes out);
// Why the bytes are no sound header, or nothing when they are one: types, tag and lengths are within their ranges and
// agree with each other. Nothing is ever allocated by a header that was not compared with the limits of its lane.
std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, MessageHeader& out);

// What an eager message of `bytes` takes of its sender's credit: its place in the stream, so that messages without
// bytes are bounded too.
constexpr std::uint64_t CreditOf(std::uint64_t bytes) { return kFrameHeaderBytes + RoundUp(bytes, kLineBytes); }

}  // namespace rondo
