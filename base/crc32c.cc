#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace rondo {

std::uint32_t Crc32c(Bytes bytes, std::uint32_t before) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // ISA-L takes the length as an int
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const Bytes part = bytes.first(std::min(bytes.size(), kAtOnce));
    // ISA-L only reads the bytes, though it declares the parameter as not const.
    auto* const from = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    state = crc32_iscsi(from, static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace rondo
