// Which blocks of a collective's virtual vector each rank brings, owes and keeps in memory. One pure function of the
// collective, the world and the rank: the builder and the verifier both ask here, and all ranks answer alike.
//
// The virtual vector has one block where all ranks work on the same elements (all_reduce, broadcast, reduce), one block
// per rank where each rank has its own part (all_gather, reduce_scatter, gather, scatter), and one block per pair of
// ranks in all_to_all: block i * P + j goes from rank i to rank j.
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
// In place, input and output are one memory, named kOutput, that holds the larger of the two: all_gather finds its
// input at block r of the output, reduce_scatter leaves its output at block r of the input and may overwrite the other
// blocks. In reduce, gather and scatter only the root can be in place; what the others do does not depend on it.
#pragma once

#include <cstdint>

#include "collectives/schedule/step.h"

namespace rondo {

// Blocks first, first + stride, ... of the virtual vector, packed in this order.
struct BlockSet {
  std::uint32_t first = 0;
  std::uint32_t stride = 1;
  std::uint32_t count = 0;

  bool Contains(std::uint32_t block) const {
    return block >= first && (block - first) % stride == 0 && (block - first) / stride < count;
  }
  // Where the block lies among those of the set. REQUIRES: Contains(block).
  std::uint32_t IndexOf(std::uint32_t block) const { return (block - first) / stride; }
  bool operator==(const BlockSet&) const = default;
};

bool HasRoot(Collective collective);
bool Reduces(Collective collective);     // combines contributions: all_reduce, reduce, reduce_scatter
bool HasInPlace(Collective collective);  // input and output may be one memory: all but all_to_all and barrier

inline constexpr int kMaxPairedWorld = 0xFFFF;  // all_to_all: more ranks have more pairs than 32 bits number

// REQUIRES: world_size >= 1; of all_to_all, <= kMaxPairedWorld.
std::uint32_t BlocksOf(Collective collective, int world_size);

// What the rank brings, and what it must have in the end. REQUIRES of these: 0 <= rank < key.world_size.
BlockSet InputBlocks(const ScheduleKey& key, Rank rank);
BlockSet OutputBlocks(const ScheduleKey& key, Rank rank);

// Whether this rank's input and output are one memory.
bool InPlaceAt(const ScheduleKey& key, Rank rank);

// What the memory behind `buffer` holds: where InPlaceAt, nothing in kInput and the larger of both in kOutput. Scratch
// is RankSchedule's to say. REQUIRES: buffer is kInput or kOutput.
BlockSet Holds(const ScheduleKey& key, Rank rank, BufferId buffer);

// Where the rank's own input lies before anything moves.
inline BufferId InputBuffer(const ScheduleKey& key, Rank rank) {
  return InPlaceAt(key, rank) ? BufferId::kOutput : BufferId::kInput;
}

}  // namespace rondo
