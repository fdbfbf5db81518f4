#include "collectives/intranode/segment.h"

#include "base/check.h"

namespace rondo {

IntranodeSegment::IntranodeSegment(Rank rank, int world_size, SharedSegment& shared_segment)
    : rank_(rank), world_size_(world_size), shared_segment_(shared_segment) {
  RONDO_CHECK(world_size >= 2, "a shared segment of {}", world_size);
  for (Rank r = 0; r < world_size; ++r) parts_.push_back(shared_segment.part(r).data());
  const std::size_t slot = (shared_segment.part(0).size() - sizeof(Counters)) / 2;
  RONDO_CHECK(slot % kLineBytes == 0 && slot >= static_cast<std::size_t>(world_size + 1) * kLineBytes,
              "slots of {} bytes for {} ranks", slot, world_size);
  slot_bytes_ = slot - sizeof(Slot);
}

bool IntranodeSegment::AnyHasWithdrawn() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (Rank r = 0; r < world_size_; ++r)
    if (HasWithdrawn(r)) return true;
  return false;
}

}  // namespace rondo
