// Fails a communicator if one of its launched graphs has failed. A launched graph runs without the host, so nothing
// reports its failure to the host. Threads that call the communicator check for it.
#pragma once

#include <atomic>

#include "base/ids.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/progress_lock.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/engine/device.h"

namespace rondo {

class GraphWatch {
 public:
  // All references outlive it.
  GraphWatch(Rank self, Failure& failure, ProgressLock& lock, const GracePeriods& graces)
      : self_(self), failure_(failure), lock_(lock), graces_(graces) {}

  // The issuer calls it before it captures the first operation. The queue must outlive all calls of Check.
  void Watch(DeviceQueue& queue) { queue_.store(&queue, std::memory_order_release); }
  // Any thread. If a launched graph has failed, fails the communicator and returns true. Returns false if no graph has
  // failed, or if the communicator had failed before.
  bool Check() {
    DeviceQueue* const queue = queue_.load(std::memory_order_acquire);
    return queue != nullptr && !failure_.has_failed() && CheckGraphsOf(*queue);
  }

 private:
  bool CheckGraphsOf(DeviceQueue& queue);

  const Rank self_;
  Failure& failure_;
  ProgressLock& lock_;
  const GracePeriods& graces_;
  std::atomic<DeviceQueue*> queue_{nullptr};  // null: nothing was captured
};

}  // namespace rondo
