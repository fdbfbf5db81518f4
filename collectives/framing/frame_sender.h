// Sends frames on a lane, plain or with checksums (frame_check.h). It keeps the memory of headers and tails while the
// lane may still read it, and gives the lane header, payload and tail in one call. The caller encodes the headers:
// those of collectives (engine/frame.h) or of messages (point_to_point/message_frame.h).
//
//   if (!sender.HasFreeHeader()) return;
//   Encode(header, sender.Header());
//   OutgoingFrame frame = sender.Make(payload, payload_bytes);
//   sender.Begin(frame, lane.accepted());
//   while (!frame.all_sent()) {
//     FramePieces<1> pieces;
//     sender.Gather(frame, final_bytes, pieces);
//     frame.sent += lane.Write(pieces.all());
//   }
//
// Nothing here is virtual, and nothing allocates after the constructor. Thread rule: as for the lane.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "collectives/framing/frame_check.h"
#include "collectives/framing/frame_prefix.h"
#include "transport/lane.h"

namespace rondo {

// The maximum number of bytes that a lane moves in one direction before other directions are polled. A rank that only
// received while its own data waited would use only half of a duplex link.
inline constexpr std::uint64_t kTurnBytes = 1024 * 1024;

// A frame that is being sent: header, payload and tail. The tail is padding, or padding and a checksum. The default
// value is a frame that is already sent.
struct OutgoingFrame {
  const std::byte* payload = nullptr;      // must stay unchanged until the lane has released it
  std::uint64_t sent = kFrameHeaderBytes;  // bytes of header, payload and tail that the lane has accepted
  std::uint32_t payload_bytes = 0;
  std::uint32_t tail_bytes = 0;
  std::uint32_t slot = 0;  // index of its header and tail in the sender

  std::uint64_t bytes() const { return kFrameHeaderBytes + std::uint64_t{payload_bytes} + tail_bytes; }
  bool all_sent() const { return sent == bytes(); }
  std::uint64_t payload_sent() const {
    return sent > kFrameHeaderBytes ? std::min<std::uint64_t>(sent - kFrameHeaderBytes, payload_bytes) : 0;
  }
};

// The pieces of at most kFrames frames, for one call of Lane::Write.
template <std::size_t kFrames>
class FramePieces {
 public:
  void Add(Bytes piece) {
    pieces_[count_++] = piece;
    asked_ += piece.size();
  }
  bool empty() const { return count_ == 0; }
  std::uint64_t asked() const { return asked_; }  // bytes of all pieces
  std::span<const Bytes> all() const { return std::span(pieces_.data(), count_); }

 private:
  std::array<Bytes, 3 * kFrames> pieces_;
  std::size_t count_ = 0;
  std::uint64_t asked_ = 0;
};

class FrameSender {
 public:
  // Maximum number of frames whose headers the lane has not released.
  static constexpr std::size_t kHeaders = 16;

  // The lane must outlive the sender.
  FrameSender(Lane& lane, bool checksums);

  Lane& lane() const { return *lane_; }

  // Whether the header `ahead` places after the next one is free, that is, whether the lane has released it. If so, the
  // caller may encode into Header(ahead).
  bool HasFreeHeader(std::size_t ahead = 0) const { return lent_until_[SlotOf(ahead)] <= lane_->released(); }
  HeaderArray& Header(std::size_t ahead = 0) { return headers_[SlotOf(ahead)]; }

  // Makes the frame whose header was encoded in Header(ahead). A frame that has not begun may be made again, with the
  // same bytes.
  OutgoingFrame Make(const std::byte* payload, std::uint64_t payload_bytes, std::size_t ahead = 0) {
    OutgoingFrame frame{.payload = payload,
                        .sent = 0,
                        .payload_bytes = static_cast<std::uint32_t>(payload_bytes),
                        .tail_bytes = static_cast<std::uint32_t>(PaddingOf(payload_bytes)),
                        .slot = SlotOf(ahead)};
    if (checks_ != nullptr) [[unlikely]]  // here and below: a separate branch keeps the path without checksums fast
      Seal(frame);
    return frame;
  }

  // Records that `frame`, which was made with the next header, begins at `stream_offset`. The next call of Make then
  // uses the header after that one.
  void Begin(const OutgoingFrame& frame, std::uint64_t stream_offset) {
    std::uint64_t lent = kFrameHeaderBytes;
    if (checks_ != nullptr) [[unlikely]]  // the lane also reads the tail from this object
      lent = frame.bytes();
    lent_until_[next_] = stream_offset + lent;
    next_ = (next_ + 1) % kHeaders;
  }

  // Adds to `pieces` the bytes of the frame that are unsent and may be sent. Of the payload, only the first
  // `final_bytes` may be sent, because only their values are final. One call adds at most kTurnBytes of payload.
  template <std::size_t kFrames>
  void Gather(const OutgoingFrame& frame, std::uint64_t final_bytes, FramePieces<kFrames>& pieces) {
    std::uint64_t at = frame.sent;
    if (at < kFrameHeaderBytes) {
      pieces.Add(Bytes(headers_[frame.slot]).subspan(at));
      at = kFrameHeaderBytes;
    }
    const std::uint64_t from = at - kFrameHeaderBytes;
    const std::uint64_t to = std::min({final_bytes, std::uint64_t{frame.payload_bytes}, from + kTurnBytes});
    if (from < to) {
      pieces.Add(Bytes(frame.payload + from, to - from));
      if (checks_ != nullptr) [[unlikely]]
        SumUpTo(to, frame);
      at += to - from;
    }
    if (at >= kFrameHeaderBytes + frame.payload_bytes && at < frame.bytes())
      pieces.Add(TailOf(frame.slot, frame.bytes() - at));
  }

 private:
  struct Check {
    OutgoingTail tail;
    std::uint64_t summed = 0;  // payload bytes included in `sum`
    std::uint32_t sum = 0;     // checksum of the header and of the first `summed` bytes of the payload
  };

  std::uint32_t SlotOf(std::size_t ahead) const { return static_cast<std::uint32_t>((next_ + ahead) % kHeaders); }
  void Seal(OutgoingFrame& frame);
  void SumUpTo(std::uint64_t end, const OutgoingFrame& frame);
  // The last `bytes` bytes of a tail.
  Bytes TailOf(std::uint32_t slot, std::uint64_t bytes) const {
    if (checks_ != nullptr) [[unlikely]]
      return (*checks_)[slot].tail.Last(bytes);
    return Bytes(kZeros.data(), bytes);
  }

  static constexpr std::array<std::byte, kLineBytes> kZeros{};

  // A header must not change until the lane has released it, so headers are used in rotation. The small members come
  // last, so that they share a cache line with the fields that follow a FrameSender in the class that contains it.
  std::array<HeaderArray, kHeaders> headers_;
  // for each header: the stream offset up to which the lane must release bytes before the header is free
  std::array<std::uint64_t, kHeaders> lent_until_{};
  Lane* lane_;
  std::unique_ptr<std::array<Check, kHeaders>> checks_;  // null without checksums
  std::uint32_t next_ = 0;
};

}  // namespace rondo
