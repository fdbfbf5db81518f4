// Data-parallel training. Every rank has the whole model and computes the gradient of its shard of a batch. The
// gradients are averaged, so all ranks take the same step.
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
// Only one thread at a time may call. If a call returns an error, the communicator has failed, and the state is
// undefined.
class Trainer {
 public:
  // The three references must outlive the trainer. `model`, `data` and `options` are the same on all ranks. `start`
  // holds this rank's initial values; ShareStart replaces them by rank 0's.
  Trainer(rondo::Communicator& communicator, const Mlp& model, const Spirals& data, const TrainerOptions& options,
          std::vector<float> start);

  rondo::Status ShareStart();
  // Continues from another state. REQUIRES: the state is the same on all ranks and has the same number of elements.
  void Restore(TrainingState state) { state_ = std::move(state); }
  // Takes one step. `batch` is the batch of all ranks together and has at least one row. Returns the mean loss over the
  // batch before the step.
  rondo::Result<double> TakeStep(Rows batch);
  // Whether this rank's parameters are bit for bit those of rank 0.
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
