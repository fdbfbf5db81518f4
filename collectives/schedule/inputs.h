// Finds out which operands of one rank's reductions are inputs. An input is a single rank's original elements, not yet
// combined with others. An average multiplies each input once before it is summed (kernels/reduce.h, AverageScaleOf).
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
  // One entry for each recv_reduce step; the key is the number of the step's transfer.
  std::unordered_map<std::uint32_t, Arriving> arriving;
  // One entry per reduce step of the rank, in order. It says whether the left operand is an input; the right operand
  // always is one.
  std::vector<bool> local;
};

// Finds the inputs among the operands of `rank`. REQUIRES: the conditions of Project (project.h), and the collective
// reduces.
ReductionInputs FindInputs(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank);

}  // namespace rondo
