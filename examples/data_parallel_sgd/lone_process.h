// The training step of one process on the whole batch, which is the reference for the result of all ranks together. It
// shares the model and the optimizer with them, but it has no shards, micro-batches, buckets or communication.
#pragma once

#include <span>
#include <vector>

#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct LoneGradient {
  double loss = 0;                // the mean loss of the samples
  std::vector<float> gradient;    // the mean gradient of the samples
  std::vector<double> magnitude;  // the mean |gradient| of the samples, to which rounding errors are relative
};

// Computes the gradient sample by sample. REQUIRES: at least one sample.
LoneGradient GradientAlone(const Mlp& model, std::span<const float> parameters, std::span<const Sample> batch);

}  // namespace sgd
