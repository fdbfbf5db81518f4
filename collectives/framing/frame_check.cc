#include "collectives/framing/frame_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/crc32c.h"

namespace rondo {

using frame_prefix::kCrcAt;

void SealHeader(FrameHeaderBytes header) { StoreLittle<std::uint32_t>(header.data() + kCrcAt, Crc32c(header)); }

std::uint32_t SumOfHeader(std::span<const std::byte, kFrameHeaderBytes> header) {
  return LoadLittle<std::uint32_t>(header.data() + kCrcAt);
}

Sums OpenHeader(FrameHeaderBytes header) {
  Sums sums{.expected = SumOfHeader(header)};
  StoreLittle<std::uint32_t>(header.data() + kCrcAt, 0);
  sums.found = Crc32c(header);
  return sums;
}

void OutgoingTail::Seal(std::uint64_t payload, std::uint32_t sum) {
  // The zeros need not be written again, because only the last four bytes ever change.
  const std::size_t zeros = CheckedTailOf(payload) - kChecksumBytes;
  const std::uint32_t whole = Crc32c(Last(zeros + kChecksumBytes).first(zeros), sum);
  StoreLittle<std::uint32_t>(bytes_.data() + bytes_.size() - kChecksumBytes, whole);
}

std::size_t IncomingTail::Take(const Arrived& arrived, std::size_t due) {
  const std::size_t bytes = std::min(arrived.size(), due);
  const std::size_t first = std::min(arrived.first.size(), bytes);
  std::copy_n(arrived.first.data(), first, bytes_.data() + here_);
  std::copy_n(arrived.second.data(), bytes - first, bytes_.data() + here_ + first);
  here_ += bytes;
  return bytes;
}

Sums IncomingTail::Verify(std::uint32_t sum) const {
  const std::size_t zeros = here_ - kChecksumBytes;
  return {.expected = LoadLittle<std::uint32_t>(bytes_.data() + zeros),
          .found = Crc32c(Bytes(bytes_).first(zeros), sum)};
}

Error DamagedFrame(Rank peer, std::uint32_t lane, std::uint64_t stream_offset, std::string_view what,
                   const Sums& sums) {
  // A peer that runs without checksums sends 0. A damaged checksum is hardly ever exactly 0.
  const std::string_view hint = sums.expected == 0 ? " (0: does that rank send checksums at all?)" : "";
  return Error(
             ErrorCode::kCorrupt,
             fmt::format("a frame from rank {} arrived damaged on lane {}, at stream offset {}, {}: checksum 0x{:08x} "
                         "expected{}, 0x{:08x} found",
                         peer, lane, stream_offset, what, sums.expected, hint, sums.found))
      .With([&](ErrorDetails& d) { d.culprit = peer; });
}

}  // namespace rondo
