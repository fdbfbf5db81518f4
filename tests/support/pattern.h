// Data that can be checked exactly, at any offset, without a copy. Every byte is a function of the stream's seed and of
// the byte's offset. So a byte that is lost, doubled, swapped or from another stream is detected at its offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace rondo {

constexpr std::byte PatternAt(std::uint64_t seed, std::uint64_t offset) {
  const std::uint64_t mixed = (offset + seed * 0x9E3779B97F4A7C15u + 1) * 0xBF58476D1CE4E5B9u;
  return static_cast<std::byte>((mixed ^ (mixed >> 31)) >> 24);
}

inline void FillPattern(std::uint64_t seed, std::uint64_t offset, MutableBytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = PatternAt(seed, offset + i);
}

// The index of the first byte that differs from the stream; nullopt: all bytes are equal.
inline std::optional<std::size_t> PatternMismatch(std::uint64_t seed, std::uint64_t offset, Bytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != PatternAt(seed, offset + i)) return i;
  return std::nullopt;
}

}  // namespace rondo
