// Recovery after ranks were lost: chooses the state with which the remaining ranks (and joiners) continue.
//
// A step ends on some ranks before it ends on others. So after a failure some ranks may be one step behind the others.
// The earlier and the later state are both correct, because each contains the gradients of all ranks and is bit for bit
// the same on every rank that has it. The later state is chosen, so that no completed step is lost.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/communicator.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

// The latest complete state of a rank.
struct Checkpoint {
  std::int64_t steps = -1;  // steps taken to reach the state; below 0: there is no state
  TrainingState state;      // has the same number of elements on all ranks, even without a state
};

// All ranks must call it. Every rank gets the checkpoint of the rank with the most steps. Returns false, and changes
// nothing, if no rank has a checkpoint. An error is an error of the communicator.
rondo::Result<bool> ShareFarthest(rondo::Communicator& communicator, Checkpoint& checkpoint);

}  // namespace sgd
