// The virtual vector of a collective is the sequence of all its blocks. A rank may hold only some of them. This header
// says which blocks each rank contributes, must have at the end, and holds in memory. All functions here are pure
// functions of the collective, the world and the rank. The builder and the verifier both use them, so all ranks agree.
//
// The virtual vector has one block if all ranks work on the same elements: all_reduce, broadcast, reduce. It has one
// block per rank if each rank has its own part: all_gather, reduce_scatter, gather, scatter. In all_to_all it has one
// block per pair of ranks: block i * P + j is sent from rank i to rank j.
//
//   collective       blocks   input of rank r          output of rank r
//   all_reduce       1        all                      all
//   broadcast        1        all at the root          all
//   reduce           1        all                      all at the root
//   all_gather       P        block r                  all
//   reduce_scatter   P        all                      block r
//   gather           P        block r                  all at the root
//   scatter          P        all at the root          block r
//   all_to_all       P * P    r P, r P + 1, ...        r, P + r, 2 P + r, ...
//   barrier          1        none                     none
//
// In place, input and output are one memory, named kOutput, with the size of the larger of the two. all_gather reads
// its input from block r of the output. reduce_scatter writes its output to block r of the input and may overwrite the
// other blocks. In reduce, gather and scatter only the root can be in place; this choice does not affect the other
// ranks.
#pragma once

#include <cstdint>

#include "collectives/schedule/step.h"

namespace rondo {

// The blocks first, first + stride, ... of the virtual vector, packed in this order.
struct BlockSet {
  std::uint32_t first = 0;
  std::uint32_t stride = 1;
  std::uint32_t count = 0;

  bool Contains(std::uint32_t block) const {
    return block >= first && (block - first) % stride == 0 && (block - first) / stride < count;
  }
  // The index of the block within the set. REQUIRES: Contains(block).
  std::uint32_t IndexOf(std::uint32_t block) const { return (block - first) / stride; }
  bool operator==(const BlockSet&) const = default;
};

bool HasRoot(Collective collective);
bool Reduces(Collective collective);     // combines contributions: all_reduce, reduce, reduce_scatter
bool HasInPlace(Collective collective);  // input and output may be one memory: true except for all_to_all and barrier

inline constexpr int kMaxPairedWorld = 0xFFFF;  // all_to_all: with more ranks the number of pairs exceeds 32 bits

// REQUIRES: world_size >= 1; for all_to_all, world_size <= kMaxPairedWorld.
std::uint32_t BlocksOf(Collective collective, int world_size);

// The blocks that the rank contributes, and those that it must have at the end. REQUIRES: 0 <= rank < key.world_size.
BlockSet InputBlocks(const ScheduleKey& key, Rank rank);
BlockSet OutputBlocks(const ScheduleKey& key, Rank rank);

// Whether this rank's input and output are one memory.
bool InPlaceAt(const ScheduleKey& key, Rank rank);

// The blocks in the memory of `buffer`. If InPlaceAt, kInput holds none and kOutput the larger of the two sets. The
// contents of scratch are listed in RankSchedule instead. REQUIRES: buffer is kInput or kOutput.
BlockSet Holds(const ScheduleKey& key, Rank rank, BufferId buffer);

// The buffer that holds the rank's own input before the collective starts.
inline BufferId InputBuffer(const ScheduleKey& key, Rank rank) {
  return InPlaceAt(key, rank) ? BufferId::kOutput : BufferId::kInput;
}

}  // namespace rondo
