// Data-parallel training: every rank holds the whole model, computes the gradient of its shard of a batch, and takes
// the same step as all others with the average.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collectives/communicator.h"
#include "examples/data_parallel_sgd/buckets.h"
#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct TrainerOptions {
  DescentOptions descent;
  BucketOptions buckets;
  std::uint64_t accumulation = 1;  // micro-batches per rank and step, at least 1
};

// One rank's part. Calls of all ranks meet: every rank makes the same calls in the same order. One thread at a time.
// An error is the communicator's, which has then failed; the state is undefined.
class Trainer {
 public:
  // All three outlive the trainer; model, data and options are the same on all ranks. `start` holds this rank's start
  // values; after ShareStart they are rank 0's.
  Trainer(rondo::Communicator& communicator, const Mlp& model, const Spirals& data, const TrainerOptions& options,
          std::vector<float> start);

  rondo::Status ShareStart();
  // Goes on from another state than the start. REQUIRES: the same on all ranks, of as many elements.
  void Restore(TrainingState state) { state_ = std::move(state); }
  // One step on a batch of all ranks together, of at least one row. Returns the mean loss over it, before the step.
  rondo::Result<double> TakeStep(Rows batch);
  // Whether this rank's parameters are rank 0's, bit by bit.
  rondo::Result<bool> HoldsBitsOfRank0();

  const TrainingState& state() const { return state_; }
  const GradientBuckets& buckets() const { return buckets_; }

 private:
  rondo::Communicator& communicator_;
  const Mlp& model_;
  const Spirals& data_;
  const TrainerOptions options_;
  TrainingState state_;
  std::vector<float> gradient_;
  GradientBuckets buckets_;
};

}  // namespace sgd
