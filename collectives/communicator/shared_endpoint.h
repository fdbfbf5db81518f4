// The endpoint of a communicator. The owner uses and ends it; other threads may use it only while it exists.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "transport/transport.h"

namespace rondo {

class SharedEndpoint {
 public:
  // Call it once, before the owner uses it.
  void Set(std::unique_ptr<Endpoint> endpoint) {
    const MutexLock lock(mutex_);
    owners_ = endpoint.get();
    endpoint_ = std::move(endpoint);
  }

  // ---- the owner, and any thread that is certain that the endpoint exists during the call ----
  Endpoint* operator->() const { return owners_; }
  Endpoint& operator*() const { return *owners_; }
  bool exists() const { return owners_ != nullptr; }

  // Takes the endpoint away. The caller must destroy it without holding a lock, because its destructor waits for
  // running calls of its observer, and these calls use Try.
  std::unique_ptr<Endpoint> Take() {
    const MutexLock lock(mutex_);
    owners_ = nullptr;
    return std::move(endpoint_);
  }

  // ---- any thread ----
  // Calls `use`(endpoint), which may use only those methods of the endpoint that any thread may call. Returns false if
  // there is no endpoint any more.
  template <typename Use>
  bool Try(const Use& use) const {
    const MutexLock lock(mutex_);
    if (endpoint_ == nullptr) return false;
    use(*endpoint_);
    return true;
  }

 private:
  Endpoint* owners_ = nullptr;  // the same endpoint, for the owner to use without the lock
  mutable Mutex mutex_;
  std::unique_ptr<Endpoint> endpoint_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
