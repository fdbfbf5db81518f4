// Which ranks form a group when a communicator is split, and which groups were split from a communicator.
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

// A rank's arguments for splitting a communicator. Ranks exchange them as four numbers.
struct SplitRequest {
  std::int64_t color = 0;  // negative: no group
  std::int64_t key = 0;
  std::int64_t rails = 0;
  std::int64_t first_rail = 0;
};

// The members of the group of rank `self`: the ranks of the communicator with the same color, ordered by (key, rank).
// kMismatch: the members do not all ask for the same rails. REQUIRES: requests[self].color >= 0; one request for each
// rank.
Result<std::vector<Rank>> GroupMembers(std::span<const SplitRequest> requests, Rank self);

// Converts `of_parent`, a rank of the parent communicator, to the same process's rank in the group. kNoRank: the
// process is not in the group, or the parent has no such rank. The spans hold ranks of the job: `parent` is indexed by
// rank of the parent, `group` by rank of the group.
Rank RankInGroup(Rank of_parent, std::span<const Rank> parent, std::span<const Rank> group);

// The groups that were split from a communicator. It holds weak pointers, so a group is in the list only while it
// exists. Thread rule: any thread.
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
  // The first child for which `wanted`(child) returns true; null: none. Calls `wanted` with the lock held.
  template <typename Wanted>
  std::shared_ptr<Core> Find(const Wanted& wanted) const {
    const MutexLock lock(mutex_);
    for (const std::weak_ptr<Core>& weak : children_)
      if (auto child = weak.lock(); child != nullptr && wanted(*child)) return child;
    return nullptr;
  }
  // The child that was added last; null: it does not exist any more, or no child was added.
  std::shared_ptr<Core> Newest() const {
    const MutexLock lock(mutex_);
    return children_.empty() ? nullptr : children_.back().lock();
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<Core>> children_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
