#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace rondo {

std::uint32_t Crc32c(Bytes bytes, std::uint32_t before) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const Bytes part = bytes.first(std::min(bytes.size(), kAtOnce));
    // It only reads, though its declaration does not say so.
    auto* const from = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    state = crc32_iscsi(from, static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace rondo
