// Checksums of frames, alike on the lanes of collectives and of messages (docs/WIRE.md, "Checksums").
//
// A frame with checksums has two of them, both CRC-32C. That of the header stands in the header, so that a receiver
// believes no length, offset or operation that it has not verified: a damaged one is told from ranks that disagree.
// That of the whole frame stands behind the payload, so that a sender can stream a payload whose end it does not have
// yet.
//
//   frame := header payload zeros crc:u32      together a multiple of kLineBytes
//          | header                            without payload
//
// Thread rule: values.
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

// What a frame has of payload at most where a receiver may go on with it only when all of it has come and been
// verified: a step that follows another one follows at this distance, and what is to be reduced waits in so much memory
// per lane. Less costs more headers and calls; more would leave the cache between being summed and being folded.
inline constexpr std::uint32_t kMostCheckedPayload = 64 << 10;

inline constexpr std::size_t kChecksumBytes = 4;

// What follows the payload.
constexpr std::uint64_t CheckedTailOf(std::uint64_t payload) {
  return payload == 0 ? 0 : RoundUp(payload + kChecksumBytes, kLineBytes) - payload;
}
inline constexpr std::size_t kMostTailBytes = kLineBytes + kChecksumBytes - 1;

// What a checksum should be, as its sender says, and what it is of the bytes that came.
struct Sums {
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
  bool match() const { return expected == found; }
};

// Puts the header's checksum into its field. REQUIRES: that is 0.
void SealHeader(FrameHeaderBytes header);
// As it stands in a sealed header: what the checksum of the whole frame goes on from.
std::uint32_t SumOfHeader(std::span<const std::byte, kFrameHeaderBytes> header);
// The opposite of SealHeader: leaves 0 in the field, as in a frame without checksums. Where the sums match, `found` is
// what the checksum of the frame goes on from.
Sums OpenHeader(FrameHeaderBytes header);

// What follows a payload, as its sender makes it. Lent to the lane until released.
class OutgoingTail {
 public:
  // `sum`: of header and payload. REQUIRES: payload > 0, and that nothing of the last one is lent any more.
  void Seal(std::uint64_t payload, std::uint32_t sum);
  // Its last `bytes`.
  Bytes Last(std::uint64_t bytes) const { return Bytes(bytes_).last(bytes); }

 private:
  std::array<std::byte, kMostTailBytes> bytes_{};
};

// What follows a payload, as it arrives, in however many pieces.
class IncomingTail {
 public:
  void Begin() { here_ = 0; }
  // Takes from what has arrived at most the `due` bytes that are still to come; gives how many.
  std::size_t Take(const Arrived& arrived, std::size_t due);
  // REQUIRES: all of it is here. `sum`: of header and payload.
  Sums Verify(std::uint32_t sum) const;

 private:
  std::array<std::byte, kMostTailBytes> bytes_{};
  std::size_t here_ = 0;
};

// A frame that is not what its sender sent. `what`: "its header", "the 4096 bytes at 65536 of transfer 3".
// kCorrupt, culprit: the peer.
Error DamagedFrame(Rank peer, std::uint32_t lane, std::uint64_t stream_offset, std::string_view what, const Sums& sums);

}  // namespace rondo
