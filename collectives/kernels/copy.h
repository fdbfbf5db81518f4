// Copies that leave the caches alone.
#pragma once

#include <cstddef>

namespace rondo {

// memcpy whose destination goes to memory without having been read into the caches first (non-temporal stores). For
// large results that nobody reads soon: a third less traffic than a plain copy. It is slower where the destination is
// in a cache already. Any alignment; no overlap. What was copied is visible to other threads as after memcpy.
// Thread rule: any thread.
void CopyPastCaches(std::byte* destination, const std::byte* source, std::size_t bytes);

// Of this processor, where the system tells, else a usual size. What is as long has left it before anybody reads it.
// Thread rule: any thread.
std::size_t LastLevelCacheBytes();

}  // namespace rondo
