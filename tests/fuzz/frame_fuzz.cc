// collectives/engine/frame: headers of a lane's stream from any peer, without and with checksums.
#include <algorithm>
#include <array>
#include <optional>

#include "base/printable.h"
#include "collectives/engine/frame.h"
#include "tests/fuzz/checked_frame.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::frame_fuzz {
using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;
using DescriptorBytes = std::array<std::byte, kDescriptorBytes>;

FrameHeader SomeHeader() {
  FrameHeader header;
  header.operation = {.sequence = 17,
                      .count = 1000,
                      .collective = Collective::kAllReduce,
                      .type = DataType::kFloat32,
                      .op = ReduceOp::kSum,
                      .algorithm = Algorithm::kRing};
  header.transfer = 3;
  header.payload_bytes = 1000;
  header.payload_offset = 64;
  header.transfer_bytes = 4000;
  header.stream_offset = 1 << 20;
  return header;
}

std::string Text(const FrameHeader& header) {
  HeaderBytes bytes;
  Encode(header, bytes);
  return ToText(bytes);
}

void CheckHeader(const HeaderBytes& bytes) {
  FrameHeader header;
  const std::optional<std::string_view> wrong = Decode(bytes, header);
  FrameHeader of_operation;
  DescriptorBytes descriptor;
  if (wrong) {
    RONDO_HOLDS(!wrong->empty() && IsPrintable(*wrong));
    std::copy_n(bytes.begin() + 32, kDescriptorBytes, descriptor.begin());
    RONDO_HOLDS(!DecodeOf(descriptor, bytes, of_operation), "refused ({}), yet taken for the operation's", *wrong);
    return;
  }
  // Every byte of a header has a meaning: encoding the decoded header gives the same bytes.
  HeaderBytes again;
  Encode(header, again);
  RONDO_HOLDS(again == bytes);
  Encode(header.operation, descriptor);
  RONDO_HOLDS(DecodeOf(descriptor, bytes, of_operation));
  of_operation.operation = header.operation;
  RONDO_HOLDS(of_operation == header);
  descriptor[HashOf(ToText(bytes)) % kDescriptorBytes] ^= std::byte{1};
  RONDO_HOLDS(!DecodeOf(descriptor, bytes, of_operation), "another operation's header was taken for this one's");
  // The error for mismatched ranks prints the operation, so any decoded numbers must have a text.
  const std::string words = header.operation.ToString();
  RONDO_HOLDS(!words.empty() && IsPrintable(words), "{}", Printable(words));
}

Corpus HarnessCorpus() {
  const FrameHeader header = SomeHeader();
  FrameHeader gather = header;
  gather.operation = {.sequence = 18, .collective = Collective::kGather, .op = UserOp(5), .root = 2, .varying = true};
  FrameHeader small = header;
  small.payload_bytes = 100;
  FrameHeader barrier;
  barrier.operation.sequence = 1;
  return {.seeds = {Text(header), Text(gather), Text(barrier), Text(header) + std::string(64, 'x') + Text(gather),
                    CheckedFrame(Text(small), std::string(small.payload_bytes, 'x')),
                    CheckedFrame(Text(barrier), "") + Text(gather)},
          .words = {std::string("RO\x01\x01\0\0\0\0", 8)}};
}

void CheckInput(std::string_view input) {
  CheckCheckedFrame(input);
  const Allocations allocations;
  for (; input.size() >= kFrameHeaderBytes; input.remove_prefix(kFrameHeaderBytes)) {
    HeaderBytes bytes;
    std::copy_n(AsBytes(input).begin(), kFrameHeaderBytes, bytes.begin());
    CheckHeader(bytes);
  }
  allocations.CheckLargest(4096);
}

}  // namespace rondo::fuzz::frame_fuzz
