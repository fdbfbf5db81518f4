// Which bit of a lane to turn: frames are followed through the stream (docs/WIRE.md), so that a story can spoil
// headers, which must be noticed, or payload, which can be with checksums only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/random.h"

namespace rondo::simulation {

enum class FrameFlip : std::uint8_t { kHeader, kPayload };

// A SimFlip for one direction of one lane, from its first byte on: turns a random bit of the first frame from number
// `frame` on that has such bytes. With checksums what follows the payload counts as payload. Of the lanes that two
// ranks have one after the other, in several generations, the first alone is followed.
class FrameFlipper {
 public:
  FrameFlipper(FrameFlip what, bool checksums, std::uint64_t frame, std::uint64_t seed)
      : what_(what), checksums_(checksums), left_(frame), random_(seed) {}
  std::optional<std::uint64_t> operator()(std::uint64_t stream_offset, Bytes piece);

 private:
  FrameFlip what_;
  bool checksums_;
  std::uint64_t left_;  // frames to let pass
  Random random_;
  std::uint64_t seen_ = 0;
  bool over_ = false;               // the first stream is
  std::uint64_t header_at_ = 0;     // of the frame that is being read, or the next
  std::uint64_t spoils_until_ = 0;  // where the payload of the one before it ends
  std::array<std::byte, kLineBytes> header_{};
};

}  // namespace rondo::simulation
