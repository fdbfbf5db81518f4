// Data-parallel training: every rank has the whole model, computes the gradient of its shard of a batch, and takes the
// same step as all others with the average gradient.
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

// One rank's part of the training. Every rank must make the same calls in the same order, because calls communicate.
// Only one thread at a time may call. An error is the communicator's, which has then failed; the state is undefined.
class Trainer {
 public:
  // The three references must outlive the trainer. `model`, `data` and `options` are the same on all ranks. `start`
  // holds this rank's initial values; ShareStart replaces them by rank 0's.
  Trainer(rondo::Communicator& communicator, const Mlp& model, const Spirals& data, const TrainerOptions& options,
          std::vector<float> start);

  rondo::Status ShareStart();
  // Continues from another state. REQUIRES: the state is the same on all ranks and has the same number of elements.
  void Restore(TrainingState state) { state_ = std::move(state); }
  // Takes one step on a batch of all ranks together, of at least one row. Returns the mean loss over the batch, before
  // the step.
  rondo::Result<double> TakeStep(Rows batch);
  // Whether this rank's parameters equal rank 0's, bit by bit.
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
