// collectives/point_to_point/message_frame: headers of a message lane, without and with checksums, and the message that
// opens one.
#include <algorithm>
#include <array>

#include "base/printable.h"
#include "collectives/point_to_point/message_frame.h"
#include "tests/fuzz/checked_frame.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::message_frame_fuzz {
using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

std::string Text(const MessageHeader& header) {
  HeaderBytes bytes;
  Encode(header, bytes);
  return ToText(bytes);
}

void CheckHeader(const HeaderBytes& bytes) {
  MessageHeader header;
  if (const auto wrong = Decode(bytes, header)) {
    RONDO_HOLDS(!wrong->empty() && IsPrintable(*wrong));
    return;
  }
  HeaderBytes again;
  Encode(header, again);
  RONDO_HOLDS(again == bytes, "a header has a byte that means nothing");
  // The engine relies on these properties without checking them again.
  RONDO_HOLDS(header.tag >= 0);
  RONDO_HOLDS(SizeOf(header.data_type) != 0 && Name(header.data_type) != "unknown");
  const bool carries = header.type == MessageFrameType::kMessage || header.type == MessageFrameType::kBody;
  RONDO_HOLDS(carries || header.payload_bytes == 0);
  if (header.type == MessageFrameType::kMessage) {
    RONDO_HOLDS(header.payload_bytes == header.message_bytes);
    RONDO_HOLDS(CreditOf(header.message_bytes) >= kFrameHeaderBytes + header.message_bytes);
  }
  RONDO_HOLDS((header.refusal != Refusal::kNone) == (header.type == MessageFrameType::kRefusal));
}

Corpus HarnessCorpus() {
  Corpus corpus;
  MessageHeader header;
  header.tag = 7;
  header.id = 3;
  header.returned_bytes = 256;
  header.stream_offset = 128;
  header.data_type = DataType::kFloat32;
  for (const auto type :
       {MessageFrameType::kMessage, MessageFrameType::kAnnouncement, MessageFrameType::kClear, MessageFrameType::kBody,
        MessageFrameType::kRefusal, MessageFrameType::kCredit, MessageFrameType::kEnd, MessageFrameType::kWithdrawal}) {
    header.type = type;
    header.message_bytes = 12;
    header.payload_bytes = type == MessageFrameType::kMessage || type == MessageFrameType::kBody ? 12 : 0;
    header.refusal = type == MessageFrameType::kRefusal ? Refusal::kTooLong : Refusal::kNone;
    corpus.seeds.push_back(Text(header));
    corpus.seeds.push_back(CheckedFrame(Text(header), std::string(header.payload_bytes, 'x')));
  }
  corpus.seeds.push_back(LaneCall());
  corpus.words.push_back(std::string("RO\x01\x02\0\0\0\0", 8));
  return corpus;
}

void CheckInput(std::string_view input) {
  CheckCheckedFrame(input);
  const Allocations allocations;
  RONDO_HOLDS(IsLaneCall(input) == (input == LaneCall()));
  for (; input.size() >= kFrameHeaderBytes; input.remove_prefix(kFrameHeaderBytes)) {
    HeaderBytes bytes;
    std::copy_n(AsBytes(input).begin(), kFrameHeaderBytes, bytes.begin());
    CheckHeader(bytes);
  }
  allocations.CheckLargest(4096);
}

}  // namespace rondo::fuzz::message_frame_fuzz
