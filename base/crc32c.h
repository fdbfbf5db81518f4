// CRC-32C (Castagnoli; RFC 3720, appendix B.4): what frames on a wire and records in a file are checked by. By ISA-L,
// which takes the instructions that the processor has.
//
// Any damage of up to 32 neighbouring bits is found, and any three flipped bits in what we put under one checksum; of
// other damage one part in 2^32 is not. It is no protection against somebody who means harm.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace rondo {

// Of `bytes` behind others whose checksum is `before`: Crc32c(b, Crc32c(a)) is that of a and b together. That of
// nothing is 0.
std::uint32_t Crc32c(Bytes bytes, std::uint32_t before = 0);
inline std::uint32_t Crc32c(std::string_view text) { return Crc32c(AsBytes(text)); }

}  // namespace rondo
