// Going on after ranks were lost: which state the ranks that are left (and newcomers) go on with.
//
// A step ends on some ranks before it ends on others, so a failure may find them one step apart. Both states are right:
// all ranks' gradients are in either, with the same bits on every rank that has it. The farther one is taken, so that
// no step is lost that any rank has taken.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/communicator.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

// The last state that a rank holds whole.
struct Checkpoint {
  std::int64_t steps = -1;  // taken to get there; below 0: it has none
  TrainingState state;      // as many elements on all ranks, whatever they hold
};

// All ranks call it. Every rank gets the checkpoint of the rank that is farthest; false if nobody has one, and nothing
// is changed. An error is the communicator's.
rondo::Result<bool> ShareFarthest(rondo::Communicator& communicator, Checkpoint& checkpoint);

}  // namespace sgd
