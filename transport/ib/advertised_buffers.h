// The user's memory into which the other side writes parts of a stream directly, without the ring.
//
//   AdvertisedBuffers   the receiver's state: the buffers in which the owner expects bytes, which of them were
//                       advertised to the other side, and which bytes have arrived in them
//   Grants              the sender's state: the buffers that the other side has advertised
//
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rondo::ib {

// The largest number of buffers that are not consumed yet, and the number of slots for grants. Both sides use the same
// value.
inline constexpr std::uint32_t kMaxAdvertised = 64;

// The message that advertises a buffer to the other side (docs/WIRE.md).
struct Grant {
  std::uint64_t begin = 0;  // stream offset
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t zero = 0;
  std::uint64_t end() const { return begin + bytes; }
};
static_assert(sizeof(Grant) == 32);

class AdvertisedBuffers {
 public:
  bool full() const { return end_ - first_ == kMaxAdvertised; }
  bool empty() const { return end_ == first_; }
  // The next buffer must not begin below this stream offset.
  std::uint64_t reach() const { return reach_; }
  // Adds `memory` for the stream's bytes from offset `begin` on. REQUIRES: not full; `memory` is not empty; begin >=
  // reach().
  void Add(std::uint64_t begin, MutableBytes memory, std::uint32_t key);

  // The number of buffers that still have to be advertised. Buffers whose bytes have all arrived are skipped.
  std::uint32_t Unadvertised(std::uint64_t arrived);
  // The i-th unadvertised buffer.
  Grant UnadvertisedAt(std::uint32_t i) const;
  // Records that the first `count` unadvertised buffers have been advertised.
  void OnAdvertised(std::uint32_t count);

  // Records that the other side wrote `bytes` bytes into the buffer for `offset`, which is the offset of the first
  // missing byte. False: there is no such buffer, or it was not advertised.
  bool Take(std::uint64_t offset, std::uint64_t bytes);

  // Arrived bytes that are contiguous in memory.
  struct Run {
    Bytes direct;           // the user's memory; empty: the bytes are in the ring
    std::uint64_t end = 0;  // stream offset
  };
  // Returns the run that begins at offset `from` and ends at `until` or before. REQUIRES: from < until; none of these
  // bytes is consumed.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Records that bytes below `until` are consumed.
  void Consume(std::uint64_t until) {
    while (first_ != end_ && Number(first_).end() <= until) ++first_;
    unadvertised_ = std::max(unadvertised_, first_);
  }
  // Records that the other side can no longer write into the buffers. Bytes that have arrived stay.
  void Disconnect();
  // Like Disconnect, and forgets all arrived bytes.
  void Clear() { first_ = unadvertised_ = end_; }

 private:
  struct Buffer {
    std::uint64_t begin = 0;
    MutableBytes memory;
    std::uint32_t key = 0;
    bool advertised = false;  // the other side may write into this buffer
    // The range of stream offsets that were written into the buffer. Bytes before this range, and bytes that arrived
    // after a connection had failed, are in the ring.
    std::uint64_t direct_begin = 0;
    std::uint64_t direct_end = 0;
    std::uint64_t end() const { return begin + memory.size(); }
  };
  Buffer& Number(std::uint64_t n) { return buffers_[n % kMaxAdvertised]; }
  const Buffer& Number(std::uint64_t n) const { return buffers_[n % kMaxAdvertised]; }

  std::array<Buffer, kMaxAdvertised> buffers_;  // buffer n is at index n % kMaxAdvertised, in the stream's order
  std::uint64_t first_ = 0;
  std::uint64_t unadvertised_ = 0;  // first_ <= unadvertised_ <= end_
  std::uint64_t end_ = 0;
  std::uint64_t reach_ = 0;
};

class Grants {
 public:
  // `posted`: the stream offset up to which the sender has posted bytes. False: the grant is invalid, or too many
  // grants are stored.
  bool Add(const Grant& grant, std::uint64_t posted);
  // Returns the buffer for the byte at `from`; null: the byte must be sent into the ring. Lowers `until` to the next
  // offset at which the destination changes. REQUIRES: from < until; `from` never decreases.
  const Grant* At(std::uint64_t from, std::uint64_t& until);

 private:
  void Pass(std::uint64_t posted) {
    while (first_ != end_ && grants_[first_ % kMaxAdvertised].end() <= posted) ++first_;
  }

  std::array<Grant, kMaxAdvertised> grants_;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t reach_ = 0;
};

}  // namespace rondo::ib
