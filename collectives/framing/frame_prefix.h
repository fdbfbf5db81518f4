// The common part of all frame headers, of collectives and of messages (docs/WIRE.md): every header is one cache line
// long, and its first 28 bytes have the same fields. Zeros follow header and payload up to the next multiple of
// kLineBytes (with checksums: frame_check.h). So headers and payloads start on line boundaries of the stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace rondo {

inline constexpr std::size_t kFrameHeaderBytes = kLineBytes;
using FrameHeaderBytes = std::span<std::byte, kFrameHeaderBytes>;
using HeaderArray = std::array<std::byte, kFrameHeaderBytes>;

// Byte offsets that are the same in every header.
namespace frame_prefix {
inline constexpr std::uint16_t kMagic = 0x4F52;  // "RO"
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kMagicAt = 0, kVersionAt = 2, kTypeAt = 3, kCrcAt = 4, kStreamOffsetAt = 8,
                             kPayloadOffsetAt = 16, kPayloadBytesAt = 24, kEnd = 28;

// The first 8 bytes of a header as a number: magic, version, type, and 0 for the checksum.
constexpr std::uint64_t BeginningOf(std::uint8_t type) {
  return kMagic | std::uint64_t{kVersion} << 8 * kVersionAt | std::uint64_t{type} << 8 * kTypeAt;
}

// Encodes the prefix. `Header` is FrameHeader or MessageHeader.
template <typename Header>
void Encode(std::uint8_t type, const Header& header, std::byte* out) {
  StoreLittle<std::uint64_t>(out, BeginningOf(type));
  StoreLittle<std::uint64_t>(out + kStreamOffsetAt, header.stream_offset);
  StoreLittle<std::uint64_t>(out + kPayloadOffsetAt, header.payload_offset);
  StoreLittle<std::uint32_t>(out + kPayloadBytesAt, header.payload_bytes);
}

// Decodes the fields of the prefix that differ between frames.
template <typename Header>
void Decode(const std::byte* in, Header& header) {
  header.stream_offset = LoadLittle<std::uint64_t>(in + kStreamOffsetAt);
  header.payload_offset = LoadLittle<std::uint64_t>(in + kPayloadOffsetAt);
  header.payload_bytes = LoadLittle<std::uint32_t>(in + kPayloadBytesAt);
}

inline std::uint8_t TypeOf(const std::byte* in) { return static_cast<std::uint8_t>(in[kTypeAt]); }

// Returns nullopt if a frame of this version starts at `in`, otherwise the reason why none does. The caller must check
// the type.
inline std::optional<std::string_view> FindFault(const std::byte* in) {
  if (LoadLittle<std::uint16_t>(in + kMagicAt) != kMagic) return "no frame starts here (wrong magic)";
  if (in[kVersionAt] != std::byte{kVersion}) return "a frame of another version";
  if (LoadLittle<std::uint32_t>(in + kCrcAt) != 0) return "a checksum where none was agreed";
  return std::nullopt;
}
}  // namespace frame_prefix

// The number of zeros that follow a payload without checksums, up to the next line boundary.
constexpr std::uint64_t PaddingOf(std::uint64_t payload) { return RoundUp(payload, kLineBytes) - payload; }

}  // namespace rondo
