// Memory of the user into which the other side writes parts of a stream directly, not through the ring.
//
//   AdvertisedBuffers   of the receiver: where its owner expects bytes, which buffers the other side knows, and which
//                       bytes have arrived in them
//   Grants              of the sender: the buffers that the other side has advertised
//
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rondo::ib {

// The most buffers that are not consumed, and the number of places for grants. Both sides use the same value.
inline constexpr std::uint32_t kMostAdvertised = 64;

// A buffer as it is advertised to the other side (docs/WIRE.md).
struct Grant {
  std::uint64_t begin = 0;  // in the stream
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t zero = 0;
  std::uint64_t end() const { return begin + bytes; }
};
static_assert(sizeof(Grant) == 32);

class AdvertisedBuffers {
 public:
  bool full() const { return end_ - first_ == kMostAdvertised; }
  bool empty() const { return end_ == first_; }
  // No later buffer begins below that offset.
  std::uint64_t reach() const { return reach_; }
  // `memory` is for the stream's bytes from offset `begin` on. REQUIRES: not full; `memory` is not empty; begin >=
  // reach().
  void Add(std::uint64_t begin, MutableBytes memory, std::uint32_t key);

  // How many are to be advertised, without those whose bytes have all arrived.
  std::uint32_t Unadvertised(std::uint64_t arrived);
  // The i-th of these.
  Grant UnadvertisedAt(std::uint32_t i) const;
  // The first `count` of these have been advertised.
  void OnAdvertised(std::uint32_t count);

  // `bytes` bytes at that offset, the first that had not arrived, were written into the buffer there. False: there is
  // no such buffer, or it was not advertised.
  bool Take(std::uint64_t offset, std::uint64_t bytes);

  // Arrived bytes in one piece.
  struct Run {
    Bytes direct;           // the user's memory; empty: they are in the ring
    std::uint64_t end = 0;  // in the stream
  };
  // The run from offset `from` on, at most up to `until`. REQUIRES: from < until; none of these bytes is consumed.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Bytes below `until` are consumed.
  void Consume(std::uint64_t until) {
    while (first_ != end_ && Number(first_).end() <= until) ++first_;
    unadvertised_ = std::max(unadvertised_, first_);
  }
  // The other side can write into the buffers no more. Bytes that have arrived stay.
  void Disconnect();
  // Like Disconnect, and no bytes are there.
  void Clear() { first_ = unadvertised_ = end_; }

 private:
  struct Buffer {
    std::uint64_t begin = 0;
    MutableBytes memory;
    std::uint32_t key = 0;
    bool advertised = false;  // the other side may write there
    // The bytes that were written there, in one piece. Earlier ones, and those after a connection had failed, are in
    // the ring.
    std::uint64_t direct_begin = 0;
    std::uint64_t direct_end = 0;
    std::uint64_t end() const { return begin + memory.size(); }
  };
  Buffer& Number(std::uint64_t n) { return buffers_[n % kMostAdvertised]; }
  const Buffer& Number(std::uint64_t n) const { return buffers_[n % kMostAdvertised]; }

  std::array<Buffer, kMostAdvertised> buffers_;  // by number modulo kMostAdvertised, in the stream's order
  std::uint64_t first_ = 0;
  std::uint64_t unadvertised_ = 0;  // first_ <= unadvertised_ <= end_
  std::uint64_t end_ = 0;
  std::uint64_t reach_ = 0;
};

class Grants {
 public:
  // `posted`: how far the sender has come. False: the grant is invalid, or there are too many.
  bool Add(const Grant& grant, std::uint64_t posted);
  // The buffer for the byte at `from`; null: it goes into the ring. Lowers `until` to the offset where that changes.
  // REQUIRES: from < until; `from` never decreases.
  const Grant* At(std::uint64_t from, std::uint64_t& until);

 private:
  void Pass(std::uint64_t posted) {
    while (first_ != end_ && grants_[first_ % kMostAdvertised].end() <= posted) ++first_;
  }

  std::array<Grant, kMostAdvertised> grants_;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t reach_ = 0;
};

}  // namespace rondo::ib
