#include "examples/data_parallel_sgd/optimizer.h"

#include <cstddef>

namespace sgd {

void Descend(const DescentOptions& options, std::span<const float> gradient, TrainingState& state) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    state.velocity[i] = options.momentum * state.velocity[i] + gradient[i];
    state.parameters[i] -= options.learning_rate * state.velocity[i];
  }
}

}  // namespace sgd
