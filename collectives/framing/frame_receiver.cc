#include "collectives/framing/frame_receiver.h"

#include "base/crc32c.h"

namespace rondo {

FrameReceiver::FrameReceiver(Lane& lane, std::uint32_t lane_index, bool checksums) : lane_(&lane) {
  if (!checksums) return;
  check_ = std::make_unique<Check>();
  check_->lane_index = lane_index;
}

Status FrameReceiver::OpenChecked(HeaderArray& header) {
  const Sums sums = OpenHeader(header);
  check_->sum = sums.found;
  if (sums.match()) return {};
  return Fail(DamagedFrame(lane_->peer(), check_->lane_index, lane_->consumed(), "in its header", sums));
}

void FrameReceiver::BeginChecked() {
  tail_left_ = static_cast<std::uint32_t>(CheckedTailOf(payload_bytes_));
  check_->tail.Begin();
}

void FrameReceiver::Sum(Bytes payload) { check_->sum = Crc32c(payload, check_->sum); }

std::size_t FrameReceiver::Discard() {
  const Arrived arrived = lane_->Peek(payload_left());
  const std::size_t taken = std::min<std::uint64_t>(arrived.size(), payload_left());
  if (check_ != nullptr) {
    const std::size_t first = std::min(arrived.first.size(), taken);
    Sum(arrived.first.first(first));
    Sum(arrived.second.first(taken - first));
  }
  lane_->Consume(taken);
  arrived_ += static_cast<std::uint32_t>(taken);
  return taken;
}

FrameReceiver::Tail FrameReceiver::TakeCheckedTail() {
  const std::size_t taken = check_->tail.Take(lane_->Peek(tail_left_), tail_left_);
  lane_->Consume(taken);
  const Tail tail = AfterTaking(taken);
  return tail == Tail::kWhole && !check_->tail.Verify(check_->sum).match() ? Tail::kDamaged : tail;
}

Error FrameReceiver::DamagedPayload(std::string_view what) const {
  const std::uint64_t frame_bytes = kFrameHeaderBytes + payload_bytes_ + CheckedTailOf(payload_bytes_);
  return DamagedFrame(lane_->peer(), check_->lane_index, lane_->consumed() - frame_bytes, what,
                      check_->tail.Verify(check_->sum));
}

}  // namespace rondo
