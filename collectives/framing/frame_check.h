// Checksums of frames. They are the same on the lanes of collectives and of messages (docs/WIRE.md, "Checksums").
//
// A frame with checksums has two of them, both CRC-32C. The checksum of the header is in the header itself. A receiver
// verifies it before it uses a length, offset or operation, and so can distinguish a damaged header from ranks that
// disagree. The checksum of the whole frame follows the payload, so a sender can begin to send a payload whose end does
// not exist yet.
//
//   frame := header payload zeros crc:u32      together a multiple of kLineBytes
//          | header                            without payload
//
// Thread rule: plain values; callers synchronize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"
#include "base/ids.h"
#include "collectives/framing/frame_prefix.h"
#include "transport/lane.h"

namespace rondo {

// The maximum payload of a frame if the receiver may use the payload only after the whole frame is verified. A step
// that depends on the payload waits for up to this many more bytes, and each lane needs this much memory for payload
// that will be reduced. A smaller value costs more headers and calls. With a larger value, the payload would leave the
// CPU cache between checksum and reduction.
inline constexpr std::uint32_t kMaxCheckedPayload = 64 << 10;

inline constexpr std::size_t kChecksumBytes = 4;

// The bytes that follow a payload: zeros and the checksum.
constexpr std::uint64_t CheckedTailOf(std::uint64_t payload) {
  return payload == 0 ? 0 : RoundUp(payload + kChecksumBytes, kLineBytes) - payload;
}
inline constexpr std::size_t kMaxTailBytes = kLineBytes + kChecksumBytes - 1;

// A checksum as its sender computed it, and as the receiver computed it from the bytes that arrived.
struct Sums {
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
  bool match() const { return expected == found; }
};

// Stores the header's checksum in its field. REQUIRES: the field is 0.
void SealHeader(FrameHeaderBytes header);
// The checksum that SealHeader has stored in the header. The checksum of the whole frame continues from it.
std::uint32_t SumOfHeader(std::span<const std::byte, kFrameHeaderBytes> header);
// Returns the header's checksum as it was sent and as computed here, and sets the field to 0, as in a frame without
// checksums. If the two are equal, the checksum of the whole frame continues from `found`.
Sums OpenHeader(FrameHeaderBytes header);

// The tail of a frame on the sender's side. The lane may read the tail until Lane::released has passed it.
class OutgoingTail {
 public:
  // Makes the tail. `sum`: checksum of header and payload. REQUIRES: payload > 0; the lane has released the previous
  // tail.
  void Seal(std::uint64_t payload, std::uint32_t sum);
  // The last `bytes` bytes of the tail.
  Bytes Last(std::uint64_t bytes) const { return Bytes(bytes_).last(bytes); }

 private:
  std::array<std::byte, kMaxTailBytes> bytes_{};
};

// The tail of a frame on the receiver's side. It may arrive in several pieces.
class IncomingTail {
 public:
  void Begin() { here_ = 0; }
  // Copies arrived bytes, at most `due` (the number of bytes of the tail that are missing). Returns how many it has
  // copied.
  std::size_t Take(const Arrived& arrived, std::size_t due);
  // Returns the frame's checksum as it was sent and as computed here. `sum`: checksum of header and payload. REQUIRES:
  // the whole tail has arrived.
  Sums Verify(std::uint32_t sum) const;

 private:
  std::array<std::byte, kMaxTailBytes> bytes_{};
  std::size_t here_ = 0;
};

// The error for a frame whose bytes are not those that the sender sent: kCorrupt, with the peer as culprit. `what` says
// where the damage is: "in its header", "in 4096 bytes at 65536 of transfer 3".
Error DamagedFrame(Rank peer, std::uint32_t lane, std::uint64_t stream_offset, std::string_view what, const Sums& sums);

}  // namespace rondo
