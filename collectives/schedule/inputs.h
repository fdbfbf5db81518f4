// Finds the operands of one rank's reductions that are inputs: a single rank's original elements, not yet combined with
// others. An average multiplies each input once before it is summed (kernels/reduce.h, AverageScaleOf).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct ReductionInputs {
  struct Arriving {
    bool incoming = false;  // the incoming operand is an input
    bool own = false;       // the rank's own operand is an input
  };
  std::unordered_map<std::uint32_t, Arriving> arriving;  // of recv_reduce steps, by the number of their transfer
  // One entry per reduce step of the rank, in order: whether the left operand is an input. The right operand always is.
  std::vector<bool> local;
};

// REQUIRES: as for Project; the collective reduces.
ReductionInputs FindInputs(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank);

}  // namespace rondo
