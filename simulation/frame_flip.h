// Which bit of a lane to turn: frames are followed through the stream (docs/WIRE.md), so that a story can spoil
// headers, which must be noticed, or payload, which without checksums cannot be.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/random.h"

namespace rondo::simulation {

enum class FrameFlip : std::uint8_t { kHeader, kPayload };

// A SimFlip for one direction of one lane, from its first byte on: turns a random bit of the first frame from number
// `frame` on that has such bytes.
class FrameFlipper {
 public:
  FrameFlipper(FrameFlip what, std::uint64_t frame, std::uint64_t seed) : what_(what), left_(frame), random_(seed) {}
  std::optional<std::uint64_t> operator()(std::uint64_t stream_offset, Bytes piece);

 private:
  FrameFlip what_;
  std::uint64_t left_;  // frames to let pass
  Random random_;
  std::uint64_t seen_ = 0;
  std::uint64_t header_at_ = 0;    // of the frame that is being read, or the next
  std::uint64_t payload_end_ = 0;  // of the one before
  std::array<std::byte, kLineBytes> header_{};
};

}  // namespace rondo::simulation
