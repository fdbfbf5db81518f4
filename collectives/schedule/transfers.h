// What an algorithm writes: transfers in global view. A send can never lack its receive.
//
//   void RingAllReduce(int world, Transfers& out) {
//     for (int hop = 1; hop < world; ++hop) {
//       for (int c = 0; c < world; ++c) out.Reduce(Wrap(c + hop, world), Wrap(c + hop + 1, world), Chunk(c));
//       out.EndRound();
//     } ...
//
// Transfers come in rounds. All transfers of one round read what their sender held before the round; their order within
// the round only matters between transfers of the same (from, to) pair. Which buffer holds a rank's chunk, what must
// not overtake what, in place or not, pre-multiplication and average: all that is the builder's business (project.h).
#pragma once

#include "base/ids.h"
#include "collectives/schedule/step.h"

namespace rondo {

class Transfers {
 public:
  virtual ~Transfers() = default;

  // `to` combines its value of the chunks with `from`'s. Of the two operands the one of the lower rank is the left one.
  virtual void Reduce(Rank from, Rank to, ChunkRange chunks) = 0;
  // `to` takes `from`'s value of the chunks.
  virtual void Copy(Rank from, Rank to, ChunkRange chunks) = 0;
  // A transfer without bytes: whatever `to` sends in later rounds is sent after this arrived.
  virtual void Signal(Rank from, Rank to) = 0;
  // The value of the chunks at `rank` is complete: it holds every rank's contribution (all-reduce). Comes after the
  // round that completed it, before any later transfer of it. An average divides here, once.
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
