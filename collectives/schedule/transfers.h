// What an algorithm writes: transfers in global view. A send can never lack its receive.
//
//   void RingAllReduce(const World& world, Transfers& out) {
//     const int p = world.size;
//     for (int hop = 1; hop < p; ++hop) {
//       for (int c = 0; c < p; ++c) out.Reduce(Wrap(c + hop, p), Wrap(c + hop + 1, p), Chunk(c));
//       out.EndRound();
//     } ...
//
// Chunks are numbered through the blocks of the collective's virtual vector (layout.h). A rank begins with its own
// value of the chunks of its input, and none of the others.
//
// Transfers come in rounds. All transfers of one round read what their sender held before the round. What arrives at
// one rank, and its Hold and Contribute, take effect in the order in which they are written. Which buffer holds a
// rank's chunk, what must not overtake what, in place or not, pre-multiplication and average: all that is the builder's
// business (project.h).
#pragma once

#include <span>

#include "base/ids.h"
#include "collectives/schedule/step.h"

namespace rondo {

// What an algorithm is written for.
struct World {
  int size = 1;                     // >= 1
  Rank root = 0;                    // means nothing to collectives without one
  std::span<const int> hosts = {};  // by rank: its host, numbered in order of first appearance; empty: all on one
};

class Transfers {
 public:
  virtual ~Transfers() = default;

  // `to` combines its value of the chunks with `from`'s. Of the two operands the one of the lower rank is the left one.
  virtual void Reduce(Rank from, Rank to, ChunkRange chunks) = 0;
  // `to` takes `from`'s value of the chunks.
  virtual void Copy(Rank from, Rank to, ChunkRange chunks) = 0;
  // A transfer without bytes: whatever `to` sends in later rounds is sent after this, and every signal before it, has
  // arrived.
  virtual void Signal(Rank from, Rank to) = 0;
  // The rank's own contribution to the chunks steps aside, before anything was combined with it: its value is nothing
  // until a Copy brings one, or a Reduce, which then is a Copy. Sends of the same round still send the contribution.
  virtual void Hold(Rank rank, ChunkRange chunks) = 0;
  // The contribution that was held is combined into the rank's value, as its right operand. REQUIRES: since Hold, the
  // value has come from lower ranks only. With Hold this folds in the ranks' order at any rank:
  //   out.Hold(2, c), out.Copy(0, 2, c), out.Reduce(1, 2, c), out.Contribute(2, c), out.Reduce(3, 2, c)
  virtual void Contribute(Rank rank, ChunkRange chunks) = 0;
  // The value of the chunks at `rank` is complete: it holds every rank's contribution. Comes after the round that
  // completed it, before any later transfer of it. An average divides here, once. REQUIRES: the last thing combined
  // into the value were these very chunks. Not written where there is nothing to combine: in a world of one.
  virtual void Finish(Rank rank, ChunkRange chunks) = 0;
  virtual void EndRound() = 0;
};

inline ChunkRange Chunk(int index) { return {static_cast<std::uint32_t>(index), 1}; }
inline ChunkRange Chunks(int first, int count) {
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
}
// The representative of `value` in 0..world-1, for value > -world.
inline Rank Wrap(int value, int world) { return (value + world) % world; }

}  // namespace rondo
