// Conversions of single values between float32 and the two 16-bit floating types, which are represented as bit
// patterns. These conversions are the reference for the vector kernels (collectives/kernels); tools and tests use them
// to fill and print buffers.
//
// Conversion to float32 is exact. Conversion from float32 rounds once, to nearest, ties to even. Subnormals are kept,
// values that are too large become infinity, and every NaN becomes the type's canonical quiet NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace rondo {

// The only NaN in results: quiet, positive, without payload.
inline constexpr std::uint16_t kNanFloat16 = 0x7E00;
inline constexpr std::uint16_t kNanBfloat16 = 0x7FC0;
inline constexpr std::uint32_t kNanFloat32 = 0x7FC0'0000;
inline constexpr std::uint64_t kNanFloat64 = 0x7FF8'0000'0000'0000;

constexpr float FromFloat16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1Fu;
  const std::uint32_t fraction = half & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(fraction != 0 ? kNanFloat32 : sign | 0x7F80'0000u);
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

constexpr std::uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFu;
  if (magnitude > 0x7F80'0000u) return kNanFloat16;
  // infinity, and values from 2^16 on, become infinity
  if (magnitude >= 0x4780'0000u) return static_cast<std::uint16_t>(sign | 0x7C00u);
  const std::uint32_t exponent = magnitude >> 23;
  // values below half of the smallest subnormal become zero
  if (exponent < 127 - 24 - 1) return static_cast<std::uint16_t>(sign);
  // `significand` includes its hidden bit. `lost` is the number of its bits that do not fit into a half: 13, or more
  // for a subnormal result. If rounding up carries into the exponent, the exponent grows by one. That is correct, even
  // if the result becomes infinity.
  const bool subnormal = exponent < 127 - 14;
  const std::uint32_t significand = subnormal ? (magnitude & 0x7F'FFFFu) | 0x80'0000u : magnitude - ((127 - 15) << 23);
  const std::uint32_t lost = subnormal ? 13 + (127 - 14) - exponent : 13;
  const std::uint32_t kept = significand >> lost;
  const std::uint32_t rest = significand & ((1u << lost) - 1);
  const std::uint32_t tie = 1u << (lost - 1);
  const std::uint32_t up = rest > tie || (rest == tie && (kept & 1) != 0) ? 1 : 0;
  return static_cast<std::uint16_t>(sign | (kept + up));
}

constexpr float FromBfloat16(std::uint16_t bfloat) {
  if ((bfloat & 0x7FFFu) > 0x7F80u) return std::bit_cast<float>(kNanFloat32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

constexpr std::uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFF'FFFFu) > 0x7F80'0000u) return kNanBfloat16;
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16);  // a carry increments the exponent
}

}  // namespace rondo
