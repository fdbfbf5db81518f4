// Views of bytes, and little-endian loads and stores for everything that crosses a wire.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace rondo {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// The alignment of lanes, slots and large chunks: a cache line.
inline constexpr std::size_t kLineBytes = 64;

constexpr std::uint64_t DivCeil(std::uint64_t value, std::uint64_t by) { return value / by + (value % by != 0); }
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) { return DivCeil(value, to) * to; }

inline Bytes AsBytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string ToText(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <std::unsigned_integral T>
T LoadLittle(const std::byte* from) {
  static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::unsigned_integral T>
void StoreLittle(std::byte* to, T value) {
  static_assert(std::endian::native == std::endian::little, "big-endian hosts need a byte swap here");
  std::memcpy(to, &value, sizeof value);
}

}  // namespace rondo
