#include "simulation/frame_flip.h"

#include <algorithm>

#include "base/check.h"
#include "collectives/framing/frame_check.h"

namespace rondo::simulation {
namespace {

using frame_prefix::kPayloadBytesAt;

}  // namespace

std::optional<std::uint64_t> FrameFlipper::operator()(std::uint64_t stream_offset, Bytes piece) {
  over_ = over_ || (stream_offset == 0 && seen_ > 0);  // true if this is a lane of a later generation
  if (over_) return std::nullopt;
  RONDO_CHECK(stream_offset == seen_, "byte {} of a stream was shown after byte {}", stream_offset, seen_);
  const std::uint64_t end = seen_ = stream_offset + piece.size();
  const auto choose = [&](std::uint64_t from, std::uint64_t until) {
    return 8 * (from - stream_offset + random_.Below(until - from)) + random_.Below(8);
  };
  for (std::uint64_t at = stream_offset; at < end;) {
    if (at < header_at_) {
      const std::uint64_t payload = std::min(end, spoils_until_);
      if (what_ == FrameFlip::kPayload && at < payload && left_ == 0) return choose(at, payload);
      at = std::min(end, header_at_);
      continue;
    }
    const std::uint64_t until = std::min(end, header_at_ + kLineBytes);
    if (what_ == FrameFlip::kHeader && left_ == 0) return choose(at, until);
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(at - stream_offset), until - at,
                header_.begin() + static_cast<std::ptrdiff_t>(at - header_at_));
    at = until;
    if (until < header_at_ + kLineBytes) continue;
    if (left_ > 0) --left_;
    const std::uint64_t bytes = LoadLittle<std::uint32_t>(header_.data() + kPayloadBytesAt);
    header_at_ = until + (checksums_ ? bytes + CheckedTailOf(bytes) : RoundUp(bytes, kLineBytes));
    spoils_until_ = checksums_ ? header_at_ : until + bytes;
  }
  return std::nullopt;
}

}  // namespace rondo::simulation
