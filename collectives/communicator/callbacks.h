// Functions of the user that are called when an operation ends (Work::Then).
//
// Thread rule: any thread. The lock is a leaf: nothing is called while it is held, except `is_final`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread_annotations.h"

namespace rondo {

struct MessageOperation;

class Callbacks {
 public:
  // The function `done`, and the operation for whose end it waits: `message`, or, if that is null, the collective with
  // the number `sequence`.
  struct Callback {
    Sequence sequence = 0;
    std::shared_ptr<MessageOperation> message;
    std::function<void(const Status&)> done;
  };

  // Moves from `callback` only if there is memory for it; throws std::bad_alloc otherwise.
  void Add(Callback&& callback) {
    const MutexLock lock(mutex_);
    callbacks_.push_back(std::move(callback));
    count_.store(callbacks_.size());
  }
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

  // Call it when an operation has ended, because callbacks may then be due. A waiting thread runs them.
  void OnEnded() {
    if (count_.load() > 0) due_.store(true);
  }
  bool due() const { return due_.load(std::memory_order_relaxed); }

  // Calls every function whose operation has ended, with no lock held. `is_final`(callback) returns whether the
  // callback's operation has ended; `status`(callback) returns the status for the function.
  template <typename IsFinal, typename StatusOf>
  void Run(const IsFinal& is_final, const StatusOf& status) {
    due_.store(false);
    while (std::optional<Callback> callback = Take(is_final)) callback->done(status(*callback));
  }

 private:
  template <typename IsFinal>
  std::optional<Callback> Take(const IsFinal& is_final) {
    const MutexLock lock(mutex_);
    const auto at = std::find_if(callbacks_.begin(), callbacks_.end(), is_final);
    if (at == callbacks_.end()) return std::nullopt;
    std::optional<Callback> taken = std::move(*at);
    callbacks_.erase(at);
    count_.store(callbacks_.size(), std::memory_order_release);
    return taken;
  }

  Mutex mutex_;
  std::vector<Callback> callbacks_ RONDO_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> due_{false};
};

}  // namespace rondo
