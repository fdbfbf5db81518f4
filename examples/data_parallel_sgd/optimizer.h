// Stochastic gradient descent with momentum: velocity = momentum * velocity + gradient; parameters -= rate * velocity.
#pragma once

#include <span>
#include <vector>

namespace sgd {

struct DescentOptions {
  float learning_rate = 0.1f;
  float momentum = 0.9f;
};

// What training carries from step to step. Every rank holds a copy; the same bits in, the same step, the same bits out.
struct TrainingState {
  std::vector<float> parameters;
  std::vector<float> velocity;  // as many, zero at the start
};

// REQUIRES: as many gradients as parameters.
void Descend(const DescentOptions& options, std::span<const float> gradient, TrainingState& state);

}  // namespace sgd
