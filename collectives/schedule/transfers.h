// An algorithm writes the transfers of all ranks together, so every send has its receive. For example:
//
//   void RingAllReduce(const World& world, Transfers& out) {
//     const int p = world.size;
//     for (int hop = 1; hop < p; ++hop) {
//       for (int c = 0; c < p; ++c) out.Reduce(Wrap(c + hop, p), Wrap(c + hop + 1, p), Chunk(c));
//       out.EndRound();
//     } ...
//
// Chunks are numbered across all blocks of the collective's virtual vector (layout.h). A rank begins with its own value
// of the chunks of its input, and has no value of the others.
//
// Transfers are grouped in rounds. All transfers of one round read what their sender held before the round. At one
// rank, arrivals, Hold and Contribute take effect in the order of the calls. The builder (project.h) handles everything
// else: which buffer holds a rank's chunk, dependencies, in place or not, pre-multiplication and average.
#pragma once

#include <span>

#include "base/ids.h"
#include "collectives/schedule/step.h"

namespace rondo {

// The world for which an algorithm writes transfers.
struct World {
  int size = 1;   // >= 1
  Rank root = 0;  // ignored by collectives without a root
  // The host of each rank, indexed by rank. Hosts are numbered in order of first appearance. Empty: all ranks share one
  // host.
  std::span<const int> hosts = {};
};

class Transfers {
 public:
  virtual ~Transfers() = default;

  // `to` combines its value of the chunks with `from`'s value. The value of the lower rank is the left operand.
  virtual void Reduce(Rank from, Rank to, ChunkRange chunks) = 0;
  // `to` replaces its value of the chunks by `from`'s value.
  virtual void Copy(Rank from, Rank to, ChunkRange chunks) = 0;
  // A transfer without bytes. Every send of `to` in later rounds waits until this signal, and every signal before it,
  // has arrived.
  virtual void Signal(Rank from, Rank to) = 0;
  // Holds back the rank's own contribution to the chunks. REQUIRES: nothing has been combined with it before. The rank
  // then has no value of the chunks until a Copy brings one, or a Reduce, which then acts as a Copy. Sends of the same
  // round still send the contribution.
  virtual void Hold(Rank rank, ChunkRange chunks) = 0;
  // Combines the held contribution into the rank's value, as its right operand. REQUIRES: since Hold, the value has
  // come from lower ranks only. Together with Hold this allows a left fold in the order of ranks at any rank:
  //   out.Hold(2, c), out.Copy(0, 2, c), out.Reduce(1, 2, c), out.Contribute(2, c), out.Reduce(3, 2, c)
  virtual void Contribute(Rank rank, ChunkRange chunks) = 0;
  // Declares the value of the chunks at `rank` complete: it holds every rank's contribution. Call it after the round
  // that completed the value and before any later transfer of it. An average divides here, once. REQUIRES: the latest
  // Reduce or Contribute into the value was called for exactly this range. Must not be called if there is nothing to
  // combine, as in a world of one rank.
  virtual void Finish(Rank rank, ChunkRange chunks) = 0;
  virtual void EndRound() = 0;
};

inline ChunkRange Chunk(int index) { return {static_cast<std::uint32_t>(index), 1}; }
inline ChunkRange Chunks(int first, int count) {
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count)};
}
// `value` modulo `world`, as a rank in 0..world-1, for value > -world.
inline Rank Wrap(int value, int world) { return (value + world) % world; }

}  // namespace rondo
