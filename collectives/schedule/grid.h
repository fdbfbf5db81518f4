// Where chunks lie: the one pure function that turns chunk indices into elements. All ranks compute the same
// boundaries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rondo {

// Cuts `count` elements of `element_bytes` into `chunks` pieces that differ by at most one unit. A unit is one element,
// or a whole cache line of elements where every chunk has at least 16 of those, so that chunks of big vectors start
// aligned when the vector does (the last chunk then also takes the rest).
class ChunkGrid {
 public:
  ChunkGrid(std::uint64_t count, std::size_t element_bytes, std::uint32_t chunks)
      : count_(count), element_bytes_(element_bytes), chunks_(chunks) {
    const std::uint64_t line = std::max<std::uint64_t>(1, kLineBytes / element_bytes);
    unit_ = count / chunks / line >= 16 ? line : 1;
    const std::uint64_t units = count / unit_;
    quotient_ = units / chunks;
    remainder_ = units % chunks;
  }

  // The first element of a chunk; Begin(chunks) is the count.
  std::uint64_t BeginElement(std::uint32_t chunk) const {
    if (chunk >= chunks_) return count_;
    return (chunk * quotient_ + std::min<std::uint64_t>(chunk, remainder_)) * unit_;
  }
  std::uint64_t BeginByte(std::uint32_t chunk) const { return BeginElement(chunk) * element_bytes_; }

  std::uint64_t count() const { return count_; }
  std::size_t element_bytes() const { return element_bytes_; }
  std::uint32_t chunks() const { return chunks_; }

 private:
  std::uint64_t count_;
  std::size_t element_bytes_;
  std::uint32_t chunks_;
  std::uint64_t unit_;
  std::uint64_t quotient_;
  std::uint64_t remainder_;
};

}  // namespace rondo
