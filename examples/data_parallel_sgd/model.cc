#include "examples/data_parallel_sgd/model.h"

#include <algorithm>
#include <cmath>

namespace sgd {
namespace {

// Computes softmax cross entropy for one sample's outputs: returns the loss, and replaces the outputs by the loss's
// derivative.
float LossInPlace(std::span<float> outputs, std::size_t label) {
  const float largest = *std::max_element(outputs.begin(), outputs.end());
  const float of_label = outputs[label];
  float sum = 0;
  for (float& output : outputs) sum += output = std::exp(output - largest);
  for (float& output : outputs) output /= sum;
  outputs[label] -= 1;
  return std::log(sum) + largest - of_label;
}

}  // namespace

Mlp::Mlp(const std::vector<std::size_t>& hidden) : widths_{kFeatures} {
  widths_.insert(widths_.end(), hidden.begin(), hidden.end());
  widths_.push_back(kClasses);
  std::size_t first = 0;
  const auto add = [&](std::string name, std::size_t size) {
    tensors_.push_back({std::move(name), first, size});
    first += size;
  };
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    add("weight " + std::to_string(layer), widths_[layer] * widths_[layer + 1]);
    add("bias " + std::to_string(layer), widths_[layer + 1]);
  }
}

std::vector<float> Mlp::StartValues(rondo::Random random) const {
  std::vector<float> parameters(parameter_count());
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const Tensor& weight = tensors_[2 * layer];
    const double reach = std::sqrt(6.0 / static_cast<double>(widths_[layer]));
    for (std::size_t i = weight.first; i < weight.end(); ++i)
      parameters[i] = static_cast<float>(reach * (2 * random.Unit() - 1));
  }
  return parameters;
}

std::vector<std::vector<float>> Mlp::Forward(std::span<const float> parameters, std::span<const Sample> samples) const {
  std::vector<std::vector<float>> outputs(widths_.size());
  for (const Sample& sample : samples)
    outputs[0].insert(outputs[0].end(), sample.features.begin(), sample.features.end());
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const std::size_t inputs = widths_[layer], width = widths_[layer + 1];
    const float* weight = &parameters[tensors_[2 * layer].first];
    const float* bias = &parameters[tensors_[2 * layer + 1].first];
    outputs[layer + 1].resize(samples.size() * width);
    for (std::size_t row = 0; row < samples.size(); ++row) {
      const float* in = &outputs[layer][row * inputs];
      float* out = &outputs[layer + 1][row * width];
      std::copy_n(bias, width, out);
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t o = 0; o < width; ++o) out[o] += in[i] * weight[i * width + o];
      if (layer + 1 == layers()) continue;  // no ReLU after the final layer
      for (std::size_t o = 0; o < width; ++o) out[o] = std::max(out[o], 0.0f);
    }
  }
  return outputs;
}

double Mlp::AddGradient(std::span<const float> parameters, std::span<const Sample> samples, std::span<float> gradient,
                        const GradientHook& on_complete) const {
  const std::vector<std::vector<float>> outputs = Forward(parameters, samples);
  std::vector<float> delta = outputs.back();  // the loss's derivative with respect to a layer's outputs, before ReLU
  double loss = 0;
  for (std::size_t row = 0; row < samples.size(); ++row)
    loss += LossInPlace(std::span(delta).subspan(row * kClasses, kClasses), samples[row].label);

  for (std::size_t layer = layers(); layer-- > 0;) {
    const std::size_t inputs = widths_[layer], width = widths_[layer + 1];
    const std::size_t weight_tensor = 2 * layer, bias_tensor = 2 * layer + 1;
    float* weight_gradient = &gradient[tensors_[weight_tensor].first];
    float* bias_gradient = &gradient[tensors_[bias_tensor].first];
    for (std::size_t row = 0; row < samples.size(); ++row) {
      const float* in = &outputs[layer][row * inputs];
      const float* out = &delta[row * width];
      for (std::size_t o = 0; o < width; ++o) bias_gradient[o] += out[o];
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t o = 0; o < width; ++o) weight_gradient[i * width + o] += in[i] * out[o];
    }
    if (on_complete) {
      on_complete(bias_tensor);
      on_complete(weight_tensor);
    }
    if (layer == 0) break;

    // The derivative with respect to this layer's inputs is computed after the hook was called, so that the complete
    // gradients can already be sent.
    const float* weight = &parameters[tensors_[weight_tensor].first];
    std::vector<float> before(samples.size() * inputs);
    for (std::size_t row = 0; row < samples.size(); ++row) {
      for (std::size_t i = 0; i < inputs; ++i) {
        if (outputs[layer][row * inputs + i] <= 0) continue;  // ReLU blocked this input
        float sum = 0;
        for (std::size_t o = 0; o < width; ++o) sum += weight[i * width + o] * delta[row * width + o];
        before[row * inputs + i] = sum;
      }
    }
    delta = std::move(before);
  }
  return loss;
}

double Mlp::Accuracy(std::span<const float> parameters, std::span<const Sample> samples) const {
  const std::vector<float> outputs = Forward(parameters, samples).back();
  std::size_t right = 0;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(row * kClasses);
    right += std::max_element(begin, begin + kClasses) == begin + static_cast<std::ptrdiff_t>(samples[row].label);
  }
  return samples.empty() ? 0 : static_cast<double>(right) / static_cast<double>(samples.size());
}

}  // namespace sgd
