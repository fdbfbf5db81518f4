// Stochastic gradient descent with momentum: velocity = momentum * velocity + gradient; parameters -= rate * velocity.
#pragma once

#include <span>
#include <vector>

namespace sgd {

struct DescentOptions {
  float learning_rate = 0.1f;
  float momentum = 0.9f;
};

// The state that training carries from step to step. Every rank has a copy. If the copies are equal bit for bit before
// a step, they are equal after it.
struct TrainingState {
  std::vector<float> parameters;
  std::vector<float> velocity;  // as many elements as parameters; zero at the start
};

// REQUIRES: the gradient has as many elements as the parameters.
void Descend(const DescentOptions& options, std::span<const float> gradient, TrainingState& state);

}  // namespace sgd
