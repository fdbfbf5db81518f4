// Tests the checksum of frames and records: the test vectors of its standard, and the properties that frames need.
#include "base/crc32c.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace rondo {
namespace crc32c_test {

// RFC 3720, B.4, prints the four bytes in their order on the wire.
TEST_CASE("the checksum is that of RFC 3720") {
  std::vector<std::byte> bytes(32);
  CHECK(Crc32c(bytes) == 0x8A9136AA);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
  CHECK(Crc32c(bytes) == 0x62A8AB43);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(Crc32c(bytes) == 0x46DD794E);
  std::reverse(bytes.begin(), bytes.end());
  CHECK(Crc32c(bytes) == 0x113FDB5C);
  CHECK(Crc32c("123456789") == 0xE3069283);
  CHECK(Crc32c("") == 0);
}

// Computes the checksum bit by bit, from its polynomial.
std::uint32_t Slowly(Bytes bytes) {
  std::uint32_t state = ~0u;
  for (const std::byte byte : bytes) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~state;
}

TEST_CASE("any length at any address, in one piece or in two") {
  Random random(3);
  std::vector<std::byte> memory(700);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random.Below(256));
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; size < 600; size += size < 140 ? 1 : 37) {
      CAPTURE(begin);
      CAPTURE(size);
      const Bytes all = Bytes(memory).subspan(begin, size);
      const std::uint32_t expected = Slowly(all);
      CHECK(Crc32c(all) == expected);
      const std::size_t cut = random.Between(0, size);
      CHECK(Crc32c(all.subspan(cut), Crc32c(all.first(cut))) == expected);
    }
  }
}

}  // namespace crc32c_test
}  // namespace rondo
