// A communicator's way to its device: made with the first operation on memory of a device, and then the same one.
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

  // ---- the issuer, and the owner once an operation on a device was issued ----
  DeviceQueue* get() const { return queue_.get(); }  // null: there is none yet
  DeviceQueue* operator->() const { return queue_.get(); }
  DeviceQueue& operator*() const { return *queue_; }

  // ---- any thread ----
  // A thread that ends everything reads it after the failure is known; the issuer looks for a failure after it has set
  // it. So one of the two releases all streams.
  DeviceQueue* seen() const { return seen_.load(); }
  // Launched graphs fail, whether or not a thread drives.
  void EndGraphs() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->EndGraphs();
  }
  // After a failure, once nothing touches any memory: no stream waits any more.
  void ReleaseAllStreams() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->LeaveForGood();
  }

 private:
  std::unique_ptr<DeviceQueue> queue_;
  std::atomic<DeviceQueue*> seen_{nullptr};
};

}  // namespace rondo
