// A communicator's way to its device: made for the first operation on memory of a device, and never replaced.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "collectives/engine/device.h"

namespace rondo {

class DeviceAccess {
 public:
  // ---- the issuer ----
  void Set(std::unique_ptr<DeviceQueue> queue) {
    queue_ = std::move(queue);
    seen_.store(queue_.get());
  }

  // ---- the issuer, and the owner after an operation on a device was issued ----
  DeviceQueue* get() const { return queue_.get(); }  // null: there is none yet
  DeviceQueue* operator->() const { return queue_.get(); }
  DeviceQueue& operator*() const { return *queue_; }

  // ---- any thread ----
  // A thread that ends all operations calls this after the failure is visible. The issuer checks for a failure after it
  // has called Set. So at least one of the two releases all streams.
  DeviceQueue* seen() const { return seen_.load(); }
  // Ends launched graphs after a failure, even if no thread advances operations.
  void EndGraphs() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->EndGraphs();
  }
  // For after a failure, when nothing uses any memory of operations: no stream waits any more.
  void ReleaseAllStreams() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->LeaveForGood();
  }

 private:
  std::unique_ptr<DeviceQueue> queue_;
  std::atomic<DeviceQueue*> seen_{nullptr};
};

}  // namespace rondo
