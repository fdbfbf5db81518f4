// Copies that bypass the caches.
#pragma once

#include <cstddef>

namespace rondo {

// A memcpy that writes the destination to memory without reading it into the caches first (non-temporal stores). Use it
// for large results that are not read soon: it causes a third less memory traffic than a plain copy. It is slower if
// the destination is already in a cache. The memory may have any alignment and must not overlap. The copied bytes are
// visible to other threads as after memcpy. Thread rule: any thread.
void CopyPastCaches(std::byte* destination, const std::byte* source, std::size_t bytes);

// Size of this processor's last-level cache if the system reports it, otherwise a typical size. A result of at least
// that size is evicted from the cache before it is read. Thread rule: any thread.
std::size_t LastLevelCacheBytes();

}  // namespace rondo
