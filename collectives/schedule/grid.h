// Pure functions that map chunk indices to elements.
//
// ChunkGrid cuts one block into chunks. BlockGrid concatenates all blocks of a collective into its virtual vector
// (layout.h). A *position* is an offset in that vector. A byte has the same position in every buffer, so a single
// comparison shows which of two steps is further on. A position is not an offset in memory, because a buffer holds only
// some blocks, packed: see PackedElement.
//
// Positions are local to a rank. If every block has the same count, all ranks compute the same positions. If counts
// differ by block, a rank needs only the counts of the blocks that it touches and may treat the others as empty. The
// two ends of a transfer must agree on its length, but not on its position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "collectives/schedule/layout.h"

namespace rondo {

// Cuts `count` elements of `element_bytes` into `chunks` pieces that differ by at most one unit. A unit is normally one
// element. If every chunk has at least 16 cache lines, a unit is a cache line of elements, so that chunks of an aligned
// vector start aligned; the last chunk then also takes the remaining elements.
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

  // The first element of a chunk. BeginElement(chunks) is the count.
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

// The counts of a collective whose blocks differ in length (all_gather_v, ...), as prefix sums in elements. The spans
// must outlive the grid. If all are empty, every block has the operation's count.
struct BlockCounts {
  // For all collectives except all_to_all: block b has the elements [begins[b], begins[b + 1]). It has blocks + 1
  // entries.
  std::span<const std::uint64_t> begins = {};
  // For all_to_all, world_size + 1 entries each. The data for rank j is [sent[j], sent[j + 1]) of the input; the data
  // from rank i is [received[i], received[i + 1]) of the output. Both give the same length for the rank itself.
  std::span<const std::uint64_t> sent = {};
  std::span<const std::uint64_t> received = {};

  bool empty() const { return begins.empty() && sent.empty(); }
};

class BlockGrid {
 public:
  // All `blocks` blocks have `count` elements, and each is cut into `chunks_per_block` chunks.
  BlockGrid(std::uint32_t blocks, std::uint64_t count, std::size_t element_bytes, std::uint32_t chunks_per_block)
      : blocks_(blocks), chunks_per_block_(chunks_per_block), block_(count, element_bytes, chunks_per_block) {}

  // Blocks with different counts, at the positions that `rank` uses. REQUIRES: the spans have the lengths that
  // BlockCounts requires for `blocks` blocks, and their values do not decrease.
  BlockGrid(std::uint32_t blocks, const BlockCounts& counts, Rank rank, std::size_t element_bytes,
            std::uint32_t chunks_per_block)
      : blocks_(blocks),
        chunks_per_block_(chunks_per_block),
        rank_(static_cast<std::uint32_t>(rank)),
        varying_(true),
        counts_(counts),
        block_(0, element_bytes, chunks_per_block) {}

  // The position of a chunk's first element (for blocks: BlockBegin). The index after the last chunk or block gives the
  // length of the vector.
  std::uint64_t BeginElement(std::uint32_t chunk) const {
    if (chunks_per_block_ == 1) return BlockBegin(chunk);
    if (blocks_ == 1 && !varying_) return block_.BeginElement(chunk);
    const std::uint32_t block = chunk / chunks_per_block_;
    const std::uint32_t inner = chunk % chunks_per_block_;
    if (inner == 0) return BlockBegin(block);
    if (!varying_) return BlockBegin(block) + block_.BeginElement(inner);
    const ChunkGrid grid(BlockElements(block), block_.element_bytes(), chunks_per_block_);
    return BlockBegin(block) + grid.BeginElement(inner);
  }
  std::uint64_t BeginByte(std::uint32_t chunk) const { return BeginElement(chunk) * block_.element_bytes(); }

  std::uint64_t BlockBegin(std::uint32_t block) const {
    if (!varying_) return block * block_.count();
    if (!counts_.begins.empty()) return counts_.begins[block];
    // all_to_all: the vector contains one row of blocks for each sender. This rank knows its own row. Of another row it
    // knows only the block that is for this rank.
    const auto world = static_cast<std::uint32_t>(counts_.sent.size()) - 1;
    const std::uint32_t row = block / world;
    const std::uint32_t column = block % world;
    // the elements in this rank's row that are for other ranks
    const std::uint64_t own_row = counts_.sent[world] - Received(rank_);
    if (row == world) return counts_.received[world] + own_row;
    if (row == rank_) return counts_.received[row] + counts_.sent[column];
    return counts_.received[row] + (row > rank_ ? own_row : 0) + (column > rank_ ? Received(row) : 0);
  }
  std::uint64_t BlockElements(std::uint32_t block) const { return BlockBegin(block + 1) - BlockBegin(block); }

  // The offset of a block within a buffer that holds the blocks of `set`, packed, in elements. REQUIRES:
  // set.Contains(block).
  std::uint64_t PackedElement(const BlockSet& set, std::uint32_t block) const {
    if (set.stride == 1) return BlockBegin(block) - BlockBegin(set.first);
    if (!varying_) return set.IndexOf(block) * block_.count();
    return counts_.received[set.IndexOf(block)];  // only the output of all_to_all has a stride other than 1
  }
  // The length of a buffer that holds the blocks of `set`, packed, in elements.
  std::uint64_t PackedElements(const BlockSet& set) const {
    if (!varying_) return set.count * block_.count();
    if (set.stride == 1) return BlockBegin(set.first + set.count) - BlockBegin(set.first);
    return counts_.received.back();
  }

  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t chunks_per_block() const { return chunks_per_block_; }
  std::uint32_t chunks() const { return blocks_ * chunks_per_block_; }
  std::size_t element_bytes() const { return block_.element_bytes(); }

 private:
  std::uint64_t Received(std::uint32_t from) const { return counts_.received[from + 1] - counts_.received[from]; }

  std::uint32_t blocks_;
  std::uint32_t chunks_per_block_;
  std::uint32_t rank_ = 0;
  bool varying_ = false;
  BlockCounts counts_;  // used if varying_
  ChunkGrid block_;     // the grid of every block, if all blocks have the same count
};

}  // namespace rondo
