#include "examples/data_parallel_sgd/lone_process.h"

#include <algorithm>
#include <cmath>

namespace sgd {

LoneGradient GradientAlone(const Mlp& model, std::span<const float> parameters, std::span<const Sample> batch) {
  const std::size_t count = model.parameter_count();
  LoneGradient sum{0, std::vector<float>(count), std::vector<double>(count)};
  std::vector<float> of_sample(count);
  for (const Sample& sample : batch) {
    std::ranges::fill(of_sample, 0.0f);
    sum.loss += model.AddGradient(parameters, {&sample, 1}, of_sample);
    for (std::size_t i = 0; i < count; ++i) {
      sum.gradient[i] += of_sample[i];
      sum.magnitude[i] += std::abs(double{of_sample[i]});
    }
  }
  const auto samples = static_cast<double>(batch.size());
  const auto share = static_cast<float>(1 / samples);
  sum.loss /= samples;
  for (float& gradient : sum.gradient) gradient *= share;
  for (double& magnitude : sum.magnitude) magnitude /= samples;
  return sum;
}

}  // namespace sgd
