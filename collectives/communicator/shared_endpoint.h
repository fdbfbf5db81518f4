// The endpoint of a communicator. The owner uses and ends it; other threads use it only as long as it exists.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "transport/transport.h"

namespace rondo {

class SharedEndpoint {
 public:
  // Once, before the owner uses it.
  void Set(std::unique_ptr<Endpoint> endpoint) {
    const MutexLock lock(mutex_);
    owners_ = endpoint.get();
    endpoint_ = std::move(endpoint);
  }

  // ---- the owner, and any thread of which it is known that the endpoint outlives its call ----
  Endpoint* operator->() const { return owners_; }
  Endpoint& operator*() const { return *owners_; }
  bool exists() const { return owners_ != nullptr; }

  // ---- the owner ----
  // Afterwards there is none. The caller destroys it without any lock: its destructor waits for calls of its observer,
  // which use Try.
  std::unique_ptr<Endpoint> Take() {
    const MutexLock lock(mutex_);
    owners_ = nullptr;
    return std::move(endpoint_);
  }

  // ---- any thread ----
  // Calls `use`(endpoint), for its any-thread methods, unless there is none now; false then.
  template <typename Use>
  bool Try(const Use& use) const {
    const MutexLock lock(mutex_);
    if (endpoint_ == nullptr) return false;
    use(*endpoint_);
    return true;
  }

 private:
  Endpoint* owners_ = nullptr;  // the same one
  mutable Mutex mutex_;
  std::unique_ptr<Endpoint> endpoint_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
