// CRC-32C (Castagnoli; RFC 3720, appendix B.4), which protects frames on a wire and records in a file. ISA-L computes
// it with the best instructions of the processor.
//
// In data of the sizes that Rondo protects by one checksum, it detects every error burst of up to 32 bits, and any
// three flipped bits. Of all other errors it misses one in 2^32. It does not protect against deliberate changes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace rondo {

// Returns the checksum of some data followed by `bytes`, where `before` is the checksum of that data. So Crc32c(b,
// Crc32c(a)) is the checksum of a followed by b. The checksum of no bytes is 0.
std::uint32_t Crc32c(Bytes bytes, std::uint32_t before = 0);
inline std::uint32_t Crc32c(std::string_view text) { return Crc32c(AsBytes(text)); }

}  // namespace rondo
