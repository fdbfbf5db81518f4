// Memory of the user into which the other side writes parts of a stream, so that they never lie in the ring.
//
//   AdvertisedBuffers   of the receiver: where its owner expects what, what of that the other side knows, what has come
//   so Grants    of the sender: what it has been told of the other side's windows
//
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rondo::ib {

// At most so many that are not consumed; and places in which they are told, counted round. Both sides know it.
inline constexpr std::uint32_t kMostAdvertised = 64;

// A window as it is told (docs/WIRE.md).
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
  // No window begins below.
  std::uint64_t reach() const { return reach_; }
  // `memory` is for the stream from offset `begin` on. REQUIRES: not full; not empty; begin >= reach().
  void Add(std::uint64_t begin, MutableBytes memory, std::uint32_t key);

  // How many are to be advertised; none of which everything has arrived.
  std::uint32_t Unadvertised(std::uint64_t arrived);
  // The i-th of them.
  Grant UnadvertisedAt(std::uint32_t i) const;
  // The first `count` are told now.
  void OnAdvertised(std::uint32_t count);

  // So many bytes at that offset, the first that had not arrived, were written into the window there. False: there is
  // none, or the other side does not know it.
  bool Take(std::uint64_t offset, std::uint64_t bytes);

  // Bytes that have arrived and lie side by side.
  struct Run {
    Bytes direct;           // where they lie; empty: in the ring
    std::uint64_t end = 0;  // in the stream
  };
  // From offset `from` on, at most up to `until`. REQUIRES: from < until; none of these is consumed.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Bytes below are consumed.
  void Consume(std::uint64_t until) {
    while (first_ != end_ && Number(first_).end() <= until) ++first_;
    unadvertised_ = std::max(unadvertised_, first_);
  }
  // The other side cannot write there any more. What has come stays.
  void Disconnect();
  // Nor is anything there.
  void Clear() { first_ = unadvertised_ = end_; }

 private:
  struct Buffer {
    std::uint64_t begin = 0;
    MutableBytes memory;
    std::uint32_t key = 0;
    bool advertised = false;  // to the other side, which may write there
    // What has come so, in one piece: what came before, and after a connection had failed, is in the ring.
    std::uint64_t direct_begin = 0;
    std::uint64_t direct_end = 0;
    std::uint64_t end() const { return begin + memory.size(); }
  };
  Buffer& Number(std::uint64_t n) { return buffers_[n % kMostAdvertised]; }
  const Buffer& Number(std::uint64_t n) const { return buffers_[n % kMostAdvertised]; }

  std::array<Buffer, kMostAdvertised> buffers_;  // by their number, counted round; in the stream's order
  std::uint64_t first_ = 0;
  std::uint64_t unadvertised_ = 0;  // first_ <= unadvertised_ <= end_
  std::uint64_t end_ = 0;
  std::uint64_t reach_ = 0;
};

class Grants {
 public:
  // `posted`: the sender has come so far. False: it makes no sense, or they are too many.
  bool Add(const Grant& grant, std::uint64_t posted);
  // Into which window the byte at `from` goes; null: into the ring. Lowers `until` to where that changes. REQUIRES:
  // from < until; never below an earlier `from`.
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
