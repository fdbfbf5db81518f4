// Events: marks in streams that hosts and other streams wait for. One between processes is two numbers in memory that
// they share.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "tests/cuda/fake_driver/memory.h"

namespace rondo::cuda::fake {

struct Captured;

// One cuEventRecord; `done` under the lock.
struct Record {
  bool done = false;
  std::chrono::steady_clock::time_point at;
};

// In memory that processes share: how many records were queued, and the newest that a stream has come to. A record on a
// second stream that overtakes counts for those before it: real ones are used on one stream.
struct SharedCounts {
  std::atomic<std::uint64_t> recorded;
  std::atomic<std::uint64_t> completed;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct Event {
  Event() = default;
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Context* context = nullptr;
  bool times = true;
  std::shared_ptr<Record> latest;            // null: never recorded
  std::shared_ptr<const Captured> captured;  // its latest record is a place in a capture; null: it is not
  SharedFile file;                           // of one between processes
  SharedCounts* counts = nullptr;
};

// The record that an event had when it was asked for, which is what waits are for.
class Mark {
 public:
  explicit Mark(const std::shared_ptr<Event>& event);
  bool Done() const;
  bool polls() const { return event_ != nullptr; }

 private:
  std::shared_ptr<Record> record_;
  std::shared_ptr<Event> event_;  // between processes
  std::uint64_t number_ = 0;
};

}  // namespace rondo::cuda::fake
