// Which operands of one rank's reductions are inputs: elements as some rank brought them, with nothing combined into
// them yet. An average multiplies each of these, once, before it is summed (kernels/reduce.h, AverageScaleOf).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct ReductionInputs {
  struct Arriving {
    bool incoming = false;  // what arrives is an input
    bool own = false;       // what it is combined with is
  };
  std::unordered_map<std::uint32_t, Arriving> arriving;  // of recv_reduce steps, by their transfer's number
  // Of the rank's reduce steps, in their order: whether the left operand is an input. The right one always is.
  std::vector<bool> local;
};

// REQUIRES: as Project; the collective reduces.
ReductionInputs FindInputs(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank);

}  // namespace rondo
