// The memory that two processes of a host share for one lane. It contains two rings, two doorbells, and the nonces that
// prove that both processes have mapped the same memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/net/fd.h"
#include "base/result.h"
#include "transport/doorbell.h"
#include "transport/shm/ring.h"
#include "transport/shm/shared_memory.h"

namespace rondo::shm {

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free, "a lock would live in one process only");
static_assert(std::atomic<DoorbellState>::is_always_lock_free);

using Nonce = std::array<std::byte, 16>;

// The head of a segment. Side 0 is the process that made it; ring 0 carries that side's bytes.
struct SegmentHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ring_bytes;
  Nonce nonce;   // the nonce of side 0, which side 0 also sends to side 1 over the base lane
  Nonce answer;  // the nonce of side 1, which side 1 also sends to side 0 over the base lane
  std::array<RingCounters<Counter>, 2> rings;
  struct alignas(kLineBytes) DoorbellLine {
    std::atomic<DoorbellState> state;
  };
  std::array<DoorbellLine, 2> bells;  // side i sleeps on bells[i]
};
inline constexpr std::size_t kSegmentHeadBytes = 4096;
static_assert(sizeof(SegmentHead) <= kSegmentHeadBytes);

class Segment {
 public:
  // REQUIRES: ring_bytes is a power of two, and at least a page. Errors: those of SharedMemory::Make.
  static Result<Segment> Make(std::size_t ring_bytes);
  // Errors: those of SharedMemory::Map, and kProtocol if the memory is not a segment of this version.
  static Result<Segment> Map(Fd fd);

  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(memory_.bytes().data()); }
  std::byte* ring(int direction) const {
    return memory_.bytes().data() + kSegmentHeadBytes + static_cast<std::size_t>(direction) * ring_bytes_;
  }
  std::size_t ring_bytes() const { return ring_bytes_; }
  int fd() const { return memory_.fd(); }
  void ForgetFd() { memory_.ForgetFd(); }

 private:
  Segment(SharedMemory memory, std::size_t ring_bytes) : memory_(std::move(memory)), ring_bytes_(ring_bytes) {}

  SharedMemory memory_;
  std::size_t ring_bytes_ = 0;
};

}  // namespace rondo::shm
