// Turns an algorithm's global transfers into the steps of each rank, with their dependencies.
#pragma once

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/step.h"

namespace rondo {

// The steps of one rank. The generator runs for the whole world, but only transfers of `rank` are kept, so the memory
// needed is that of one rank. REQUIRES: the entry is for key.collective and key.algorithm; 0 <= rank < world_size; 0 <=
// root < world_size.
RankSchedule Project(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank);

// The steps of all ranks, for the verifier, the text form and people.
Schedule Build(const AlgorithmEntry& entry, const ScheduleKey& key);

// The steps of all ranks that touch chunks of `window`, with their ranges cut to it. Numbers of transfers and chunks
// stay those of the whole schedule. Chunks never depend on one another, so a proof for a window holds for its chunks.
// This allows checking worlds of thousands of ranks, whose whole schedule would not fit into memory. REQUIRES: the
// window lies within the grid.
Schedule BuildWindow(const AlgorithmEntry& entry, const ScheduleKey& key, ChunkRange window);

}  // namespace rondo
