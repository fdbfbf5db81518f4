// CRC-32C (Castagnoli; RFC 3720, appendix B.4), a byte at a time: for records of a file store, whose cost is the system
// calls around it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rondo {

constexpr std::uint32_t Crc32c(std::string_view bytes) {
  constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

static_assert(Crc32c("123456789") == 0xE3069283u);

}  // namespace rondo
