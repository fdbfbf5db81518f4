// One process on the whole batch: what the ranks together must amount to. It shares the model and the optimizer with
// them, but no shards, no micro-batches, no buckets and no communication.
#pragma once

#include <span>
#include <vector>

#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct LoneGradient {
  double loss = 0;                // mean of the samples'
  std::vector<float> gradient;    // mean of the samples'
  std::vector<double> magnitude;  // mean of the samples' |gradient|: what rounding errors are measured by
};

// Sample by sample. REQUIRES: at least one sample.
LoneGradient GradientAlone(const Mlp& model, std::span<const float> parameters, std::span<const Sample> batch);

}  // namespace sgd
