// Events: marks in streams that hosts and other streams wait for. An event between processes is two numbers in memory
// that the processes share.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "tests/cuda/fake_driver/memory.h"

namespace rondo::cuda::fake {

struct Captured;

// One cuEventRecord. The lock protects `done`.
struct Record {
  bool done = false;
  std::chrono::steady_clock::time_point at;
};

// Numbers in memory that processes share: how many records were queued, and the newest that a stream has reached. If a
// record on a second stream overtakes earlier records, it completes them as well. This does not matter, because
// programs use such an event on one stream.
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
  std::shared_ptr<const Captured> captured;  // set if the latest record is a position in a capture; otherwise null
  SharedFile file;                           // holds the counts of an event between processes
  SharedCounts* counts = nullptr;
};

// The latest record of an event at the moment of a call. A wait for an event is a wait for this record.
class Mark {
 public:
  explicit Mark(const std::shared_ptr<Event>& event);
  bool Done() const;
  bool polls() const { return event_ != nullptr; }

 private:
  std::shared_ptr<Record> record_;
  std::shared_ptr<Event> event_;  // set only for an event between processes
  std::uint64_t number_ = 0;
};

}  // namespace rondo::cuda::fake
