#include "collectives/kernels/copy.h"

// One instruction set suffices, because memory is the limit and not the width of a store.
#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace rondo {

void CopyPastCaches(std::byte* destination, const std::byte* source, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr std::size_t kLine = 64;  // stores are combined into cache lines; a partial line would be written twice
  const hn::CappedTag<std::uint8_t, kLine> d;
  const std::size_t lead = (kLine - reinterpret_cast<std::uintptr_t>(destination) % kLine) % kLine;
  if (bytes < lead + kLine) {
    if (bytes > 0) std::memcpy(destination, source, bytes);
    return;
  }
  std::memcpy(destination, source, lead);
  auto* to = reinterpret_cast<std::uint8_t*>(destination + lead);
  const auto* from = reinterpret_cast<const std::uint8_t*>(source + lead);
  std::size_t left = bytes - lead;
  for (; left >= kLine; left -= kLine, to += kLine, from += kLine)
    for (std::size_t i = 0; i < kLine; i += hn::Lanes(d)) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  hwy::FlushStream();
  std::memcpy(to, from, left);
}

std::size_t LastLevelCacheBytes() {
  constexpr std::size_t kUsual = std::size_t{32} << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE  // glibc only
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return kUsual;
}

}  // namespace rondo
