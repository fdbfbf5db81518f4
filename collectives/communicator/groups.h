// Which ranks form a group when a communicator is split, and the groups that were split from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread_annotations.h"

namespace rondo {

// What a rank asks for when it splits a communicator. Ranks exchange it as four numbers.
struct SplitRequest {
  std::int64_t color = 0;  // negative: no group
  std::int64_t key = 0;
  std::int64_t rails = 0;
  std::int64_t first_rail = 0;
};

// The ranks of the communicator, by rank of the group, that have the color of rank `self`: by (key, rank). kMismatch:
// one of them asks for other rails. REQUIRES: requests[self].color >= 0; one request for each rank.
Result<std::vector<Rank>> GroupMembers(std::span<const SplitRequest> requests, Rank self);

// The rank in a group of a rank of its parent; kNoRank: it is not in the group, or there is none. Both spans have the
// ranks of the job, by rank of the parent and of the group.
Rank RankInGroup(Rank of_parent, std::span<const Rank> parent, std::span<const Rank> group);

// The groups that were split from a communicator, as long as others keep them. Thread rule: any thread.
template <typename Core>
class ChildGroups {
 public:
  void Add(const std::shared_ptr<Core>& child) {
    const MutexLock lock(mutex_);
    std::erase_if(children_, [](const auto& weak) { return weak.expired(); });
    children_.push_back(child);
  }
  // The children that still exist, in the order in which they were added.
  std::vector<std::shared_ptr<Core>> Live() const {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<Core>> live;
    for (const std::weak_ptr<Core>& weak : children_)
      if (auto child = weak.lock()) live.push_back(std::move(child));
    return live;
  }
  // The first of them of which `wanted`(child) holds, asked with the lock held; null: none.
  template <typename Wanted>
  std::shared_ptr<Core> Find(const Wanted& wanted) const {
    const MutexLock lock(mutex_);
    for (const std::weak_ptr<Core>& weak : children_)
      if (auto child = weak.lock(); child != nullptr && wanted(*child)) return child;
    return nullptr;
  }
  // The one that was added last; null: it does not live any more, or there was none.
  std::shared_ptr<Core> Newest() const {
    const MutexLock lock(mutex_);
    return children_.empty() ? nullptr : children_.back().lock();
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<Core>> children_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
