// One operation, in the form that the strategies of the intranode path use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "collectives/engine/frame.h"

namespace rondo {

// A piece of a vector or block, in bytes.
struct ByteRange {
  std::uint64_t begin = 0, bytes = 0;
  std::uint64_t end() const { return begin + bytes; }
};

struct IntranodeOperation {
  Rank rank = kNoRank;
  int world_size = 0;
  OperationDescriptor descriptor;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t bytes = 0;  // length of the vector, or of one block
  bool in_place = false;
  bool scales = false;   // each rank scales its contribution before it is reduced
  bool divides = false;  // the result is divided when the last operand has been added

  Collective collective() const { return descriptor.collective; }
  bool is_root(Rank peer) const { return peer == descriptor.root; }
  const std::byte* source() const { return in_place ? output : input; }
  // The length of the vector, or of all blocks together.
  std::uint64_t bytes_of_all() const { return descriptor.BytesOfAll(world_size); }
  std::uint64_t block_at(Rank peer) const { return static_cast<std::uint64_t>(peer) * bytes; }

  // The part of `window` that rank `peer` reduces if all ranks share the work. All ranks compute the same parts; rank
  // 0's part is the longest.
  ByteRange ShareOf(Rank peer, const ByteRange& window) const {
    const std::uint64_t max_bytes = RoundUp(DivCeil(window.bytes, static_cast<std::uint64_t>(world_size)), kLineBytes);
    const std::uint64_t begin = std::min(static_cast<std::uint64_t>(peer) * max_bytes, window.bytes);
    return {window.begin + begin, std::min(max_bytes, window.bytes - begin)};
  }
};

}  // namespace rondo
