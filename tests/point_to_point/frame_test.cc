// The header of a message frame, byte by byte as in docs/WIRE.md, and which headers are refused.
#include <doctest/doctest.h>

#include <array>

#include "base/random.h"
#include "collectives/point_to_point/message_frame.h"

namespace rondo {
namespace frame_test {

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

HeaderBytes Encoded(const MessageHeader& header) {
  HeaderBytes bytes;
  Encode(header, bytes);
  return bytes;
}

const MessageHeader kExample{.type = MessageFrameType::kMessage,
                             .stream_offset = 128,
                             .payload_bytes = 12,
                             .tag = 7,
                             .id = 3,
                             .message_bytes = 12,
                             .returned_bytes = 256,
                             .data_type = DataType::kFloat32};

TEST_CASE("the header of a message has the bytes that WIRE.md shows") {
  const unsigned char expected[kFrameHeaderBytes] = {
      0x52, 0x4f, 0x01, 0x02, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0,  // "RO", version 1, message, offset 128
      0,    0,    0,    0,    0, 0, 0, 0, 0x0c, 0, 0, 0, 7, 0, 0, 0,  // payload offset 0, 12 bytes, tag 7
      3,    0,    0,    0,    0, 0, 0, 0, 0x0c, 0, 0, 0, 0, 0, 0, 0,  // number 3, 12 bytes in all
      0,    1,    0,    0,    0, 0, 0, 0, 9,    0, 0, 0, 0, 0, 0, 0,  // 256 bytes of credit returned, float32
  };
  const HeaderBytes bytes = Encoded(kExample);
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    CAPTURE(i);
    CHECK(static_cast<unsigned char>(bytes[i]) == expected[i]);
  }
  MessageHeader decoded;
  CHECK_FALSE(Decode(bytes, decoded));
  CHECK(decoded == kExample);
}

TEST_CASE("what no Rondo of this version sends is refused with a reason") {
  const auto fault = [](std::size_t at, unsigned char value) {
    HeaderBytes bytes = Encoded(kExample);
    bytes[at] = static_cast<std::byte>(value);
    MessageHeader header;
    return std::string(Decode(bytes, header).value_or("sound"));
  };
  CHECK(fault(0, 0) == "no frame starts here (wrong magic)");
  CHECK(fault(2, 2) == "a frame of another version");
  CHECK(fault(3, 1) == "a message frame of unknown type");
  CHECK(fault(3, 10) == "a message frame of unknown type");
  CHECK(fault(4, 1) == "a checksum where none was agreed");
  CHECK(fault(31, 0x80) == "a tag below 0");
  CHECK(fault(56, 0) == "an unknown data type");
  CHECK(fault(57, 1) == "a refusal without a reason, or a reason without a refusal");
  CHECK(fault(63, 1) == "reserved bytes that are not zero");
  CHECK(fault(24, 11) == "a message in parts");
  CHECK(fault(3, 3) == "payload where none belongs");
}

TEST_CASE("random bytes never decode to a header that contradicts itself") {
  Random random(5);
  int sound = 0;
  for (int i = 0; i < 200'000; ++i) {
    HeaderBytes bytes = Encoded(kExample);
    for (int changes = static_cast<int>(random.Between(1, 4)); changes > 0; --changes)
      bytes[random.Below(kFrameHeaderBytes)] = static_cast<std::byte>(random.Below(256));
    MessageHeader header;
    if (Decode(bytes, header)) continue;
    ++sound;
    CHECK(header.tag >= 0);
    CHECK(SizeOf(header.data_type) > 0);
    CHECK(Encoded(header) == bytes);
  }
  CHECK(sound > 0);
}

TEST_CASE("a call to open the lane is distinguished from other heartbeats") {
  CHECK(IsLaneCall(LaneCall()));
  CHECK_FALSE(IsLaneCall(""));
  CHECK_FALSE(IsLaneCall(std::string(32, '\1')));
  CHECK_FALSE(IsLaneCall(std::string("\2\0\0\0", 4)));
}

TEST_CASE("credit counts a message's place in the stream, so that messages without bytes are bounded too") {
  CHECK(CreditOf(0) == 64);
  CHECK(CreditOf(1) == 128);
  CHECK(CreditOf(64) == 128);
  CHECK(CreditOf(65) == 192);
}

}  // namespace frame_test
}  // namespace rondo
