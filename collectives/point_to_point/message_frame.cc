#include "collectives/point_to_point/message_frame.h"

#include <algorithm>
#include <array>

namespace rondo {
namespace {

// Byte offsets, as in docs/WIRE.md.
constexpr std::size_t kTagAt = frame_prefix::kEnd, kIdAt = 32, kMessageBytesAt = 40, kReturnedBytesAt = 48,
                      kDataTypeAt = 56, kRefusalAt = 57, kReservedAt = 58;

bool Carries(MessageFrameType type) { return type == MessageFrameType::kMessage || type == MessageFrameType::kBody; }
bool Describes(MessageFrameType type) {
  return type == MessageFrameType::kMessage || type == MessageFrameType::kAnnouncement;
}

}  // namespace

std::string LaneCall() {
  std::array<std::byte, 4> body;
  StoreLittle<std::uint32_t>(body.data(), kMessageLaneIndex);
  return ToText(body);
}

bool IsLaneCall(std::string_view body) {
  return body.size() == 4 && LoadLittle<std::uint32_t>(AsBytes(body).data()) == kMessageLaneIndex;
}

void Encode(const MessageHeader& header, FrameHeaderBytes out) {
  std::byte* to = out.data();
  frame_prefix::Encode(static_cast<std::uint8_t>(header.type), header, to);
  StoreLittle<std::uint32_t>(to + kTagAt, static_cast<std::uint32_t>(header.tag));
  StoreLittle<std::uint64_t>(to + kIdAt, header.id);
  StoreLittle<std::uint64_t>(to + kMessageBytesAt, header.message_bytes);
  StoreLittle<std::uint64_t>(to + kReturnedBytesAt, header.returned_bytes);
  to[kDataTypeAt] = static_cast<std::byte>(header.data_type);
  to[kRefusalAt] = static_cast<std::byte>(header.refusal);
  std::fill(to + kReservedAt, to + kFrameHeaderBytes, std::byte{0});
}

std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, MessageHeader& out) {
  const std::byte* from = in.data();
  if (const auto fault = frame_prefix::FindFault(from)) return fault;
  const std::uint8_t type = frame_prefix::TypeOf(from);
  if (type < static_cast<std::uint8_t>(MessageFrameType::kMessage) ||
      type > static_cast<std::uint8_t>(MessageFrameType::kWithdrawal))
    return "a message frame of unknown type";
  if (std::any_of(from + kReservedAt, from + kFrameHeaderBytes, [](std::byte b) { return b != std::byte{0}; }))
    return "reserved bytes that are not zero";
  out.type = static_cast<MessageFrameType>(type);
  frame_prefix::Decode(from, out);
  out.tag = static_cast<Tag>(LoadLittle<std::uint32_t>(from + kTagAt));
  out.id = LoadLittle<std::uint64_t>(from + kIdAt);
  out.message_bytes = LoadLittle<std::uint64_t>(from + kMessageBytesAt);
  out.returned_bytes = LoadLittle<std::uint64_t>(from + kReturnedBytesAt);
  out.data_type = static_cast<DataType>(from[kDataTypeAt]);
  out.refusal = static_cast<Refusal>(from[kRefusalAt]);

  if (out.tag < 0) return "a tag below 0";
  if (SizeOf(out.data_type) == 0) return "an unknown data type";
  if (out.refusal > Refusal::kClosed || (out.refusal != Refusal::kNone) != (out.type == MessageFrameType::kRefusal))
    return "a refusal without a reason, or a reason without a refusal";
  if (Describes(out.type) && out.message_bytes % SizeOf(out.data_type) != 0)
    return "a message whose size is not a multiple of its element's size";
  if (out.type == MessageFrameType::kMessage && out.payload_bytes != out.message_bytes) return "a message in parts";
  if (!Carries(out.type) && out.payload_bytes != 0) return "payload where none belongs";
  return std::nullopt;
}

}  // namespace rondo
