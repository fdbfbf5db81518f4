// A digest of a text. It must be the same on every rank and in every build, because ranks derive ports from it.
#pragma once

#include <cstdint>
#include <string_view>

namespace rondo {

// FNV-1a, 64 bits.
constexpr std::uint64_t Digest(std::string_view text) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const char byte : text) digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return digest;
}

}  // namespace rondo
