// A communicator's access to its device. Its DeviceQueue is made for the first operation on device memory, and never
// replaced.
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

  // ---- the issuer; also the owner, after an operation on a device was issued ----
  DeviceQueue* get() const { return queue_.get(); }  // null: there is no queue yet
  DeviceQueue* operator->() const { return queue_.get(); }
  DeviceQueue& operator*() const { return *queue_; }

  // ---- any thread ----
  // The queue, or null. A thread that ends all operations calls this after the failure is visible, and the issuer
  // checks for a failure after it has called Set. So at least one of these two threads releases all streams.
  DeviceQueue* seen() const { return seen_.load(); }
  // Ends launched graphs after a failure, even if no thread advances operations.
  void EndGraphs() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->EndGraphs();
  }
  // Ends the waits of all streams. Call it after a failure, when nothing uses the memory of operations any more.
  void ReleaseAllStreams() {
    if (DeviceQueue* const queue = seen(); queue != nullptr) queue->ReleaseAllStreams();
  }

 private:
  std::unique_ptr<DeviceQueue> queue_;
  std::atomic<DeviceQueue*> seen_{nullptr};
};

}  // namespace rondo
