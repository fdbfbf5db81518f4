// Chooses which bit of a lane to flip. It follows the frames in the stream (docs/WIRE.md). So a scenario can corrupt
// headers, which must always be noticed, or payload, which only checksums detect.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/random.h"

namespace rondo::simulation {

enum class FrameFlip : std::uint8_t { kHeader, kPayload };

// A SimFlip for one direction of one lane, starting at its first byte. It flips a random bit of the first frame that
// has bytes of the chosen kind, starting with frame number `frame`. With checksums, the bytes after the payload count
// as payload. If two ranks use several lanes one after the other, in several generations, only the first lane is
// followed.
class FrameFlipper {
 public:
  FrameFlipper(FrameFlip what, bool checksums, std::uint64_t frame, std::uint64_t seed)
      : what_(what), checksums_(checksums), left_(frame), random_(seed) {}
  std::optional<std::uint64_t> operator()(std::uint64_t stream_offset, Bytes piece);

 private:
  FrameFlip what_;
  bool checksums_;
  std::uint64_t left_;  // frames to skip
  Random random_;
  std::uint64_t seen_ = 0;
  bool over_ = false;               // whether the stream of the first lane has ended
  std::uint64_t header_at_ = 0;     // start of the current or next frame's header
  std::uint64_t spoils_until_ = 0;  // end of the previous frame's payload
  std::array<std::byte, kLineBytes> header_{};
};

}  // namespace rondo::simulation
