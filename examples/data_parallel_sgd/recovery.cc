#include "examples/data_parallel_sgd/recovery.h"

namespace sgd {

using rondo::DataType;
using rondo::ReduceOp;

rondo::Result<bool> ShareFarthest(rondo::Communicator& communicator, Checkpoint& checkpoint) {
  std::int64_t farthest = checkpoint.steps;
  RONDO_TRY(communicator.AllReduce(&farthest, &farthest, 1, DataType::kInt64, ReduceOp::kMax));
  if (farthest < 0) return false;
  std::int64_t root = checkpoint.steps == farthest ? communicator.rank() : communicator.world_size();
  RONDO_TRY(communicator.AllReduce(&root, &root, 1, DataType::kInt64, ReduceOp::kMin));
  // Receives into copies, so that the old checkpoint is still complete if another rank is lost during the broadcast.
  TrainingState state = checkpoint.state;
  for (auto* part : {&state.parameters, &state.velocity})
    RONDO_TRY(communicator.Broadcast(part->data(), part->data(), part->size(), DataType::kFloat32,
                                     static_cast<rondo::Rank>(root)));
  checkpoint = {farthest, std::move(state)};
  return true;
}

}  // namespace sgd
