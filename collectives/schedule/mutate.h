// Mutations that break a schedule, as mistakes in an algorithm, in the builder or in a hand-written schedule would.
// Each mutation makes a schedule wrong, so the verifier must refuse every mutant. A mutant that passes shows a gap in
// the proof.
#pragma once

#include <span>
#include <string_view>

#include "base/random.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct Mutation {
  std::string_view name;  // "drop a receive"
  // Breaks `schedule` at a place that `random` chooses. Returns false, without a change, if the schedule has no such
  // place, for example no finish to drop in a broadcast. REQUIRES: the builder made the schedule, and it is proved.
  bool (*apply)(Schedule& schedule, Random& random);
};

std::span<const Mutation> AllMutations();

}  // namespace rondo
