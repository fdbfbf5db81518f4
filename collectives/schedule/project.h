// From an algorithm's global transfers to the steps of each rank, with what each must not overtake.
#pragma once

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/step.h"

namespace rondo {

// One rank's steps: the generator runs for the whole world, the sink keeps what concerns `rank`, so memory is this
// rank's only. REQUIRES: the entry serves key.collective and key.algorithm; 0 <= rank < world_size; 0 <= root <
// world_size.
RankSchedule Project(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank);

// All ranks' steps, for the verifier, the text form and people.
Schedule Build(const AlgorithmEntry& entry, const ScheduleKey& key);

// All ranks' steps as far as they touch the chunks of `window`, ranges cut to it; numbers of transfers and chunks stay
// those of the whole. Chunks never depend on one another, so what is proved of a window holds for its chunks: this is
// how worlds of thousands of ranks, whose whole schedule would not fit into memory, are looked at. REQUIRES: the window
// lies within the grid.
Schedule BuildWindow(const AlgorithmEntry& entry, const ScheduleKey& key, ChunkRange window);

}  // namespace rondo
