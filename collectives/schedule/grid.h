// Where chunks lie: the pure functions that turn chunk indices into elements.
//
// ChunkGrid cuts one block. BlockGrid lines the blocks of a virtual vector (layout.h) up: a *position* is an offset in
// that vector, the same for every buffer, so that "how far has that step come" is one comparison. Where a position lies
// in memory is another question: a buffer holds only some blocks, packed (PackedElement).
//
// Positions are local. Where every block has the same count all ranks compute the same ones; where counts differ by
// block a rank need only know the counts of the blocks it touches, and may take the others for empty: the two ends of
// a transfer have to agree on its length, not on its position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "collectives/schedule/layout.h"

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

// The counts of a collective whose blocks differ in length (all_gather_v, ...), as prefix sums in elements; lent for as
// long as the grid lives. All empty: every block has the operation's count.
struct BlockCounts {
  // Of all collectives but all_to_all: block b is elements [begins[b], begins[b + 1]). blocks + 1 entries.
  std::span<const std::uint64_t> begins = {};
  // Of all_to_all, world_size + 1 entries each: what goes to rank j is [sent[j], sent[j + 1]) of the input, what comes
  // from rank i is [received[i], received[i + 1]) of the output. To oneself both say the same.
  std::span<const std::uint64_t> sent = {};
  std::span<const std::uint64_t> received = {};

  bool empty() const { return begins.empty() && sent.empty(); }
};

class BlockGrid {
 public:
  // `blocks` blocks of `count` elements, each cut into `chunks_per_block`.
  BlockGrid(std::uint32_t blocks, std::uint64_t count, std::size_t element_bytes, std::uint32_t chunks_per_block)
      : blocks_(blocks), chunks_per_block_(chunks_per_block), block_(count, element_bytes, chunks_per_block) {}

  // Blocks with counts of their own, seen by `rank`. REQUIRES: the spans have the lengths that BlockCounts says for
  // `blocks`, and do not descend.
  BlockGrid(std::uint32_t blocks, const BlockCounts& counts, Rank rank, std::size_t element_bytes,
            std::uint32_t chunks_per_block)
      : blocks_(blocks),
        chunks_per_block_(chunks_per_block),
        rank_(static_cast<std::uint32_t>(rank)),
        varying_(true),
        counts_(counts),
        block_(0, element_bytes, chunks_per_block) {}

  // The position of a chunk's, of a block's first element; that of the one behind the last is the length of the vector.
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
    // all_to_all: row by row. Of other ranks' rows only what comes to this rank is known, of the own one everything.
    const auto world = static_cast<std::uint32_t>(counts_.sent.size()) - 1;
    const std::uint32_t row = block / world;
    const std::uint32_t column = block % world;
    const std::uint64_t own_row = counts_.sent[world] - Received(rank_);  // beyond what comes to this rank of it
    if (row == world) return counts_.received[world] + own_row;
    if (row == rank_) return counts_.received[row] + counts_.sent[column];
    return counts_.received[row] + (row > rank_ ? own_row : 0) + (column > rank_ ? Received(row) : 0);
  }
  std::uint64_t BlockElements(std::uint32_t block) const { return BlockBegin(block + 1) - BlockBegin(block); }

  // How many elements a buffer that holds `set`, packed, has in front of one of its blocks. REQUIRES:
  // set.Contains(block).
  std::uint64_t PackedElement(const BlockSet& set, std::uint32_t block) const {
    if (set.stride == 1) return BlockBegin(block) - BlockBegin(set.first);
    if (!varying_) return set.IndexOf(block) * block_.count();
    return counts_.received[set.IndexOf(block)];  // the only set with another stride is all_to_all's output
  }
  // The length of such a buffer.
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
  BlockCounts counts_;  // where varying
  ChunkGrid block_;     // of every block, where all have one count
};

}  // namespace rondo
