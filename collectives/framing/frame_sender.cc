#include "collectives/framing/frame_sender.h"

#include "base/crc32c.h"

namespace rondo {

FrameSender::FrameSender(Lane& lane, bool checksums) : lane_(&lane) {
  if (checksums) checks_ = std::make_unique<std::array<Check, kHeaders>>();
}

void FrameSender::Seal(OutgoingFrame& frame) {
  HeaderArray& header = headers_[frame.slot];
  SealHeader(header);
  frame.tail_bytes = static_cast<std::uint32_t>(CheckedTailOf(frame.payload_bytes));
  Check& check = (*checks_)[frame.slot];
  check.summed = 0;
  check.sum = SumOfHeader(header);
}

void FrameSender::SumUpTo(std::uint64_t end, const OutgoingFrame& frame) {
  Check& check = (*checks_)[frame.slot];
  if (end <= check.summed) return;
  check.sum = Crc32c(Bytes(frame.payload + check.summed, end - check.summed), check.sum);
  check.summed = end;
  if (end == frame.payload_bytes) check.tail.Seal(frame.payload_bytes, check.sum);
}

}  // namespace rondo
