// Receives frames from a lane, plain or with checksums (frame_check.h). Headers are looked at where they arrived and
// taken off the lane once their owner has accepted them. With checksums a header is only shown when its sum matches,
// and a frame is whole only when its sum does.
//
//   HeaderArray header;
//   RONDO_ASSIGN(const bool found, receiver.PeekHeader(header));
//   if (!found) return;                     // else decode it, compare it with what is due
//   receiver.Begin(payload_bytes);
//   receiver.Take(destination);             // until payload_left() is 0; or Discard
//   if (receiver.TakeTail() == FrameReceiver::Tail::kDamaged) return receiver.DamagedPayload("in 4 bytes");
//   receiver.End();
//
// Plain payload may be taken off the lane by the owner itself, as reductions in place are: without checksums only the
// tail is counted here. Nothing is virtual or allocates after the constructor. Thread rule: the lane's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/framing/frame_check.h"
#include "collectives/framing/frame_prefix.h"
#include "transport/lane.h"

namespace rondo {

class FrameReceiver {
 public:
  enum class Tail : std::uint8_t {
    kNothing,  // nothing of it came
    kPart,     // some came, and some is still to come
    kWhole,    // all of it is here, and with checksums the frame is what its sender sent
    kDamaged,  // all of it is here, and the frame is not what its sender sent
  };

  // The lane outlives it; `lane_index` is its number in errors.
  FrameReceiver(Lane& lane, std::uint32_t lane_index, bool checksums);

  Lane& lane() const { return *lane_; }

  // ---- between frames ----

  // The header at the front of the lane, left there; false until all of it has arrived. kCorrupt: its checksum does not
  // match. With checksums its field for them is shown as without: 0.
  Result<bool> PeekHeader(HeaderArray& header) {
    const Arrived arrived = lane_->Peek(kFrameHeaderBytes);
    if (arrived.first.size() >= kFrameHeaderBytes) {
      std::memcpy(header.data(), arrived.first.data(), kFrameHeaderBytes);
    } else {
      if (arrived.size() < kFrameHeaderBytes) return false;
      std::copy_n(arrived.first.data(), arrived.first.size(), header.data());
      std::copy_n(arrived.second.data(), kFrameHeaderBytes - arrived.first.size(),
                  header.data() + arrived.first.size());
    }
    if (check_ != nullptr) [[unlikely]]  // here and below: kept off the path of those who have none
      RONDO_TRY(OpenChecked(header));
    return true;
  }
  // Takes the header off that PeekHeader has shown; a frame with so much payload comes.
  void Begin(std::uint32_t payload_bytes) {
    lane_->Consume(kFrameHeaderBytes);
    receiving_ = true;
    payload_bytes_ = payload_bytes;
    arrived_ = 0;
    tail_left_ = static_cast<std::uint32_t>(PaddingOf(payload_bytes));
    if (check_ != nullptr) [[unlikely]]
      BeginChecked();
  }

  // ---- within a frame ----

  bool receiving() const { return receiving_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  // Payload that Take and Discard have taken, verified or not.
  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t payload_left() const { return payload_bytes_ - arrived_; }
  std::uint64_t tail_left() const { return tail_left_; }
  // Take, Discard and TakeTail have taken all of the frame, and with checksums it is what its sender sent.
  bool whole() const { return arrived_ == payload_bytes_ && tail_left_ == 0; }

  // Moves arrived payload into `destination`, which has at most payload_left() bytes; returns how much.
  std::size_t Take(MutableBytes destination) {
    const std::size_t taken = lane_->ReadInto(destination);
    arrived_ += static_cast<std::uint32_t>(taken);
    if (check_ != nullptr) [[unlikely]]
      Sum(destination.first(taken));
    return taken;
  }
  // Throws arrived payload away; returns how much.
  std::size_t Discard();
  // Takes arrived bytes of what follows the payload. REQUIRES: the payload has been taken, by whomever.
  Tail TakeTail() {
    if (tail_left_ == 0) return Tail::kWhole;
    if (check_ != nullptr) [[unlikely]]
      return TakeCheckedTail();
    const std::size_t here = std::min<std::size_t>(lane_->Peek(tail_left_).size(), tail_left_);
    lane_->Consume(here);
    return AfterTaking(here);
  }
  // After Tail::kDamaged. `what`: "in 4096 bytes at 65536 of transfer 3".
  Error DamagedPayload(std::string_view what) const;
  void End() { receiving_ = false; }

 private:
  struct Check {
    IncomingTail tail;
    std::uint32_t sum = 0;  // of the header and the payload that has arrived
    std::uint32_t lane_index = 0;
  };

  Status OpenChecked(HeaderArray& header);
  void BeginChecked();
  void Sum(Bytes payload);
  Tail TakeCheckedTail();
  Tail AfterTaking(std::size_t bytes) {
    tail_left_ -= static_cast<std::uint32_t>(bytes);
    return tail_left_ == 0 ? Tail::kWhole : bytes > 0 ? Tail::kPart : Tail::kNothing;
  }

  Lane* lane_;
  std::unique_ptr<Check> check_;  // null without checksums
  std::uint32_t payload_bytes_ = 0;
  std::uint32_t arrived_ = 0;
  std::uint32_t tail_left_ = 0;  // of what follows the payload, still to be taken
  bool receiving_ = false;
};

}  // namespace rondo
