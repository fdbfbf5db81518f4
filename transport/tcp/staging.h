// The ring buffer of one lane. It holds bytes that have arrived and are not consumed yet. A byte's stream offset
// determines its place in the ring. While the ring is empty, its origin moves with the stream, so that short messages
// always use the same few cache lines. The origin stays a multiple of 64, so that payload at an aligned stream offset
// is aligned in memory.
//
// Thread rule: as for the lane.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "base/check.h"
#include "transport/lane.h"

namespace rondo::tcp {

inline constexpr std::size_t kStagingBytes = 256 * 1024;  // a power of two
// The size is large enough to fetch a small payload together with its frame header.
inline constexpr std::size_t kLeastFetchBytes = 4096;

class Staging {
 public:
  std::size_t staged() const { return static_cast<std::size_t>(received_ - consumed_); }
  std::uint64_t consumed() const { return consumed_; }
  std::uint64_t received() const { return received_; }

  Arrived Shown() const {
    const std::size_t size = staged();
    const std::size_t place = Place(consumed_);
    const std::size_t first = std::min(size, kStagingBytes - place);
    return {Bytes(staging_.get() + place, first), Bytes(staging_.get(), size - first)};
  }

  // Returns free space of the ring for the next bytes, in two parts. Its size is the larger of kLeastFetchBytes and
  // `bytes`, or all free space if the ring has less.
  std::array<MutableBytes, 2> Room(std::size_t bytes) {
    if (staged() == 0) origin_ = received_ / kLineBytes * kLineBytes;
    const std::size_t size = std::min(kStagingBytes - staged(), std::max(bytes, kLeastFetchBytes));
    const std::size_t place = Place(received_);
    const std::size_t first = std::min(size, kStagingBytes - place);
    return {MutableBytes(staging_.get() + place, first), MutableBytes(staging_.get(), size - first)};
  }
  void Received(std::size_t bytes) { received_ += bytes; }

  void Consume(std::size_t bytes) {
    RONDO_CHECK(bytes <= staged(), "{} bytes consumed of {} that Peek showed", bytes, staged());
    consumed_ += bytes;
  }
  // Moves as many staged bytes into `destination` as fit, and returns their number.
  std::size_t MoveTo(MutableBytes destination) {
    std::size_t done = 0;
    while (done < destination.size() && staged() != 0) {  // at most twice, because the ring may wrap
      const std::size_t place = Place(consumed_);
      const std::size_t part = std::min({destination.size() - done, staged(), kStagingBytes - place});
      std::memcpy(destination.data() + done, staging_.get() + place, part);
      consumed_ += part;
      done += part;
    }
    return done;
  }
  // Counts bytes that were received straight into their destination, without the ring. REQUIRES: nothing is staged.
  void Passed(std::size_t bytes) {
    received_ += bytes;
    consumed_ += bytes;
  }

 private:
  std::size_t Place(std::uint64_t offset) const {
    return static_cast<std::size_t>(offset - origin_) & (kStagingBytes - 1);
  }

  // Stream offsets, consumed_ <= received_. The bytes between them are staged, at Place(offset).
  std::uint64_t consumed_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t origin_ = 0;
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(kLineBytes)); }
  };
  std::unique_ptr<std::byte, Free> staging_{
      static_cast<std::byte*>(::operator new(kStagingBytes, std::align_val_t(kLineBytes)))};
};

}  // namespace rondo::tcp
