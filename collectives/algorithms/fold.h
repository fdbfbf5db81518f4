// The left fold in the ranks' order at any rank, by which operands may be anything that is associative at most, and all
// sums have the same bits: ((0 + 1) + 2) + ...
#pragma once

#include <cstddef>
#include <span>

#include "collectives/schedule/transfers.h"

namespace rondo {

// Within the round in hand, all of `members` (ascending) send the chunks to members[at], who combines them in this
// order, its own contribution in its place.
inline void FoldInOrder(std::span<const Rank> members, std::size_t at, ChunkRange chunks, Transfers& out) {
  const Rank to = members[at];
  if (at > 0) out.Hold(to, chunks);
  for (const Rank member : members) {
    if (member != to) {
      out.Reduce(member, to, chunks);
    } else if (at > 0) {
      out.Contribute(to, chunks);
    }
  }
}

}  // namespace rondo
