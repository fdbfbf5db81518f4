// Generates a left fold in the order of ranks, ((0 + 1) + 2) + ..., at any rank. `op` need not commute, and every rank
// that computes the fold gets the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/schedule/transfers.h"

namespace rondo {

// Within the current round, all `members` except members[at] send the chunks to members[at]. That rank combines all
// contributions, its own included, in the order of `members`. REQUIRES: `members` are in ascending order.
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
