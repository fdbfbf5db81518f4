// The headers of messages' frames, version 1. docs/WIRE.md defines their bytes. framing/frame_prefix.h defines the
// fields that headers of collectives have, too.
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

// The body of the heartbeat that a rank sends to a peer when it opens their separate lane for messages
// (kMessageLaneIndex). The peer then opens the lane, too. This is needed because a receive from any rank does not know
// which lanes to open.
std::string LaneCall();
bool IsLaneCall(std::string_view body);

// The numbers are sent on the wire; 1 is data of a collective.
enum class MessageFrameType : std::uint8_t {
  kMessage = 2,       // a whole eager message, within the credit of its sender
  kAnnouncement = 3,  // announces a message; its body is sent only after kClear
  kClear = 4,         // a receive has matched the announcement: send the body
  kBody = 5,          // a piece of an announced message
  kRefusal = 6,       // the announced message will not be received; `refusal` says why
  kCredit = 7,        // carries only `returned_bytes`
  kEnd = 8,           // the sender of this frame closes its communicator; from now on it sends only answers
  kWithdrawal = 9,    // the announced message will not be sent, because its sender timed out
};

enum class Refusal : std::uint8_t {
  kNone = 0,
  kTooLong = 1,    // the matching receive's buffer is too small; `message_bytes` is its size
  kOtherType = 2,  // the matching receive has another type, `data_type`
  kClosed = 3,     // the receiver closes and has no receive for the message
};

struct MessageHeader {
  MessageFrameType type = MessageFrameType::kCredit;
  std::uint64_t stream_offset = 0;        // offset of this header in the lane's stream
  std::uint64_t payload_offset = 0;       // in a body: offset of the payload within the message
  std::uint32_t payload_bytes = 0;        // payload of this frame
  Tag tag = 0;                            // in messages and announcements
  std::uint64_t id = 0;                   // number of the message; counts messages and announcements from 1
  std::uint64_t message_bytes = 0;        // the message's length; in a refusal: the size of the receive's buffer
  std::uint64_t returned_bytes = 0;       // eager credit returned since the lane began, in total
  DataType data_type = DataType::kUint8;  // the message's type; in a refusal: the receive's type
  Refusal refusal = Refusal::kNone;
  bool operator==(const MessageHeader&) const = default;
};

void Encode(const MessageHeader& header, FrameHeaderBytes out);
// Returns nothing if the bytes are a valid header, otherwise the reason why they are not. In a valid header, types, tag
// and lengths are within their ranges and consistent. MessageLane allocates memory for the message only after it has
// compared the header with its limits (MessageLimits).
std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, MessageHeader& out);

// The credit that an eager message of `bytes` uses: its bytes in the stream, header included, so that messages without
// bytes are limited too.
constexpr std::uint64_t CreditOf(std::uint64_t bytes) { return kFrameHeaderBytes + RoundUp(bytes, kLineBytes); }

}  // namespace rondo
