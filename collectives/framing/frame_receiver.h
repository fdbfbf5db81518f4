// Receives frames from a lane, plain or with checksums (frame_check.h). PeekHeader returns a header without consuming
// it; Begin consumes it when the caller has accepted it. With checksums, PeekHeader returns a header only if its
// checksum matches, and a frame is whole only if its checksum matches.
//
//   HeaderArray header;
//   RONDO_ASSIGN(const bool found, receiver.PeekHeader(header));
//   if (!found) return;                     // otherwise decode the header and compare it with what is expected
//   receiver.Begin(payload_bytes);
//   receiver.Take(destination);             // until payload_left() is 0; or Discard
//   if (receiver.TakeTail() == FrameReceiver::Tail::kDamaged) return receiver.DamagedPayload("in 4 bytes");
//   receiver.End();
//
// Without checksums, the caller may consume the payload from the lane itself, as reductions that read the payload in
// place do. This class then only counts the tail. Nothing is virtual, and nothing allocates after the constructor.
// Thread rule: as for the lane.
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
    kNothing,  // no byte of the tail was taken
    kPart,     // some bytes were taken, others have not arrived
    kWhole,    // the whole tail was taken, and the frame's checksum, if it has one, matches
    kDamaged,  // the whole tail was taken, and the frame's checksum does not match
  };

  // The lane must outlive the receiver. Errors name the lane by `lane_index`.
  FrameReceiver(Lane& lane, std::uint32_t lane_index, bool checksums);

  Lane& lane() const { return *lane_; }

  // ---- between frames ----

  // Copies the header at the front of the lane and leaves it there. False: the header has not arrived completely.
  // kCorrupt: its checksum does not match. The copy's checksum field is 0, as in a header without a checksum.
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
    if (check_ != nullptr) [[unlikely]]  // here and below: a separate branch keeps the path without checksums fast
      RONDO_TRY(OpenChecked(header));
    return true;
  }
  // Consumes the header that PeekHeader has returned, and begins a frame with `payload_bytes` of payload.
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
  // The number of payload bytes of the current frame that Take and Discard have taken, verified or not.
  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t payload_left() const { return payload_bytes_ - arrived_; }
  std::uint64_t tail_left() const { return tail_left_; }
  // Whether Take, Discard and TakeTail have taken the whole frame. After Tail::kDamaged the result means nothing.
  bool whole() const { return arrived_ == payload_bytes_ && tail_left_ == 0; }

  // Moves arrived payload into `destination`, whose size is at most payload_left(). Returns the number of bytes.
  std::size_t Take(MutableBytes destination) {
    const std::size_t taken = lane_->ReadInto(destination);
    arrived_ += static_cast<std::uint32_t>(taken);
    if (check_ != nullptr) [[unlikely]]
      Sum(destination.first(taken));
    return taken;
  }
  // Discards arrived payload. Returns the number of bytes.
  std::size_t Discard();
  // Takes arrived bytes of the tail. REQUIRES: Take, Discard or the caller has consumed all payload.
  Tail TakeTail() {
    if (tail_left_ == 0) return Tail::kWhole;
    if (check_ != nullptr) [[unlikely]]
      return TakeCheckedTail();
    const std::size_t here = std::min<std::size_t>(lane_->Peek(tail_left_).size(), tail_left_);
    lane_->Consume(here);
    return AfterTaking(here);
  }
  // The error to report after Tail::kDamaged. `what`: "in 4096 bytes at 65536 of transfer 3".
  Error DamagedPayload(std::string_view what) const;
  void End() { receiving_ = false; }

 private:
  struct Check {
    IncomingTail tail;
    std::uint32_t sum = 0;  // checksum of the header and of the payload that has arrived
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
  std::uint32_t tail_left_ = 0;  // bytes of the tail that are not taken yet
  bool receiving_ = false;
};

}  // namespace rondo
