// Ways to break a schedule: what a slip in an algorithm, in the builder or in a hand-written schedule looks like. Each
// mutation makes a schedule wrong, so the verifier must refuse every mutant; one that passes is a hole in the proof.
#pragma once

#include <span>
#include <string_view>

#include "base/random.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct Mutation {
  std::string_view name;  // "drop the receive of a transfer"
  // Breaks `schedule` at a place drawn from `random`. False, and nothing changed, where it has no place for it: no
  // finish to drop in a broadcast. REQUIRES: the schedule is a proved one of the builder's.
  bool (*apply)(Schedule& schedule, Random& random);
};

std::span<const Mutation> AllMutations();

}  // namespace rondo
